"""The style sheet, the script and the icons of the pages."""

from pathlib import Path

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse

router = APIRouter()

_FOLDER = Path(__file__).parents[1] / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FILES = {file.name: file for file in _FOLDER.iterdir() if file.suffix in _TYPES}


@router.get("/static/{name}")
def static_file(name: str) -> FileResponse:
    """A file of the folder ``static``."""
    file = _FILES.get(name)
    if file is None:
        raise HTTPException(status_code=404, detail=f"the file {name!r} does not exist")
    return FileResponse(file, media_type=_TYPES[file.suffix], headers={"Cache-Control": "private, max-age=300"})
