"""Interference with requests to an S3 server: errors in place of its answers, and headers that it ignores."""


def at_first(times, answer, *, verb="PUT"):
    """Answer the first requests of a verb in place of the server."""
    left = [times]

    def interfere(request, forward, _environ):
        if request.verb == verb and left[0]:
            left[0] -= 1
            return answer
        return forward()

    return interfere


def ignoring(*headers):
    def interfere(_request, forward, environ):
        for header in headers:
            environ.pop(f"HTTP_{header.upper().replace('-', '_')}", None)
        return forward()

    return interfere
