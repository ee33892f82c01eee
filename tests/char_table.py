"""The schema that delta-spark 4.4 writes for a table with columns of CHAR and VARCHAR.

``CREATE TABLE ... (id INT, v VARCHAR(3), c CHAR(4), s STRUCT<m: VARCHAR(2), n: INT>, a ARRAY<CHAR(2)>,
mm MAP<VARCHAR(2), VARCHAR(3)>) USING DELTA``
"""

from __future__ import annotations

from lakehouse_lib.schema import ArrayType, Field, MapType, Schema, StructType

_KEY = "__CHAR_VARCHAR_TYPE_STRING"

SCHEMA = Schema(
    [
        Field("id", "integer"),
        Field("v", "string", metadata={_KEY: "varchar(3)"}),
        Field("c", "string", metadata={_KEY: "char(4)"}),
        Field(
            "s",
            StructType([Field("m", "string"), Field("n", "integer")]),
            metadata={_KEY: "struct<m:varchar(2),n:int>"},
        ),
        Field("a", ArrayType("string"), metadata={_KEY: "array<char(2)>"}),
        Field("mm", MapType("string", "string"), metadata={_KEY: "map<varchar(2),varchar(3)>"}),
    ]
)
