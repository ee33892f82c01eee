-- table primitives: every primitive type at the edges of its range
CREATE TABLE $table (id LONG, b BOOLEAN, i8 BYTE, i16 SHORT, i32 INT, i64 LONG, f FLOAT, d DOUBLE, s STRING, x BINARY,
  dt DATE, ts TIMESTAMP) USING delta;
INSERT INTO $table VALUES
  (0, true, 127Y, 32767S, 2147483647, 9223372036854775807, float('inf'), double('-inf'), 'ünï\u0000\n"', X'00FF',
   DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59.999999Z'),
  (1, false, -128Y, -32768S, -2147483648, -9223372036854775807, float('nan'), double('nan'), '', X'',
   DATE'0001-01-01', TIMESTAMP'0001-01-01 00:00:00Z'),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (3, true, 0Y, 0S, 0, 0, float('-0.0'), double('-0.0'), '😀\uFFFF', X'0A', DATE'1582-10-15',
   TIMESTAMP'1582-10-15 00:00:00Z');
UPDATE $table SET s = repeat('😀', 40) WHERE id = 1;
DELETE FROM $table WHERE d = double('nan');

-- table timestamps_int96: the old physical form, with edges beyond nanoseconds
SET spark.sql.parquet.outputTimestampType=INT96;
CREATE TABLE $table (id LONG, ts TIMESTAMP, s STRUCT<t: TIMESTAMP>, l ARRAY<TIMESTAMP>) USING delta;
INSERT INTO $table SELECT id, t, named_struct('t', t), array(t, NULL) FROM VALUES
  (0, TIMESTAMP'0001-01-01 00:00:00Z'), (1, TIMESTAMP'1677-09-21 00:12:43Z'), (2, TIMESTAMP'1969-12-31 23:59:59.999999Z'),
  (3, TIMESTAMP'2262-04-11 23:47:16.854776Z'), (4, TIMESTAMP'9999-12-31 23:59:59.999999Z'), (5, NULL) AS (id, t);
DELETE FROM $table WHERE id = 2;

-- table timestamps_micros: files of three physical forms in one table
SET spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS;
CREATE TABLE $table (id LONG, ts TIMESTAMP) USING delta;
INSERT INTO $table VALUES (0, TIMESTAMP'0001-01-01 00:00:00Z'), (1, TIMESTAMP'9999-12-31 23:59:59.999999Z');
SET spark.sql.parquet.outputTimestampType=TIMESTAMP_MILLIS;
INSERT INTO $table VALUES (2, TIMESTAMP'1969-12-31 23:59:59.999Z'), (3, TIMESTAMP'2024-02-29 12:00:00.5Z');
SET spark.sql.parquet.outputTimestampType=INT96;
INSERT INTO $table VALUES (4, TIMESTAMP'1969-12-31 23:59:59.999999Z'), (5, TIMESTAMP'9999-12-31 23:59:59.999999Z');
OPTIMIZE $table;

-- table legacy_calendar: dates and times before 1582 in the hybrid calendar that Spark 2 wrote
SET spark.sql.parquet.datetimeRebaseModeInWrite=LEGACY;
SET spark.sql.parquet.int96RebaseModeInWrite=LEGACY;
CREATE TABLE $table (id LONG, d DATE, ts TIMESTAMP) USING delta;
INSERT INTO $table VALUES (0, DATE'1000-01-01', TIMESTAMP'1000-01-01 00:00:00Z'),
  (1, DATE'1582-10-04', TIMESTAMP'1500-06-01 12:00:00Z'), (2, DATE'2020-01-01', TIMESTAMP'2020-01-01 00:00:00Z');
SET spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS;
INSERT INTO $table VALUES (3, DATE'0200-03-01', TIMESTAMP'0900-01-01 00:00:00Z'), (4, NULL, NULL);

-- table timestamp_ntz: timestamps without a zone, also as a partition
CREATE TABLE $table (id LONG, ts TIMESTAMP_NTZ, part TIMESTAMP_NTZ) USING delta PARTITIONED BY (part);
INSERT INTO $table VALUES (0, TIMESTAMP_NTZ'2024-03-31 02:30:00', TIMESTAMP_NTZ'2024-01-01 00:00:00.000001'),
  (1, TIMESTAMP_NTZ'0001-01-01 00:00:00', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'), (2, NULL, NULL);
UPDATE $table SET ts = TIMESTAMP_NTZ'9999-12-31 23:59:59.999999' WHERE id = 0;
OPTIMIZE $table;

-- table decimals: every physical form
CREATE TABLE $table (id LONG, a DECIMAL(1, 0), b DECIMAL(9, 9), c DECIMAL(18, 3), d DECIMAL(38, 18), e DECIMAL(38, 0))
  USING delta;
INSERT INTO $table VALUES (0, 9, 0.123456789, 123456789012345.678, 12345678901234567890.123456789012345678,
    99999999999999999999999999999999999999),
  (1, -9, -0.999999999, -999999999999999.999, -1, -99999999999999999999999999999999999999),
  (2, NULL, NULL, NULL, NULL, NULL);
SET spark.sql.parquet.writeLegacyFormat=true;
INSERT INTO $table VALUES (3, 1, 0.5, 2.5, 3.5, 4);
OPTIMIZE $table;

-- table nested: lists, maps and structs in one another, null and empty; fields added inside
CREATE TABLE $table (id LONG, l ARRAY<ARRAY<INT>>, m MAP<INT, MAP<STRING, ARRAY<DECIMAL(5, 2)>>>,
  s STRUCT<a: STRUCT<b: STRUCT<c: STRING>>, l: ARRAY<STRUCT<x: DATE>>>) USING delta;
INSERT INTO $table VALUES
  (0, array(array(1, NULL), NULL, array()), map(1, map('k', array(1.5, NULL), 'n', NULL), 2, map()),
   named_struct('a', named_struct('b', named_struct('c', 'c')), 'l', array(named_struct('x', DATE'2024-01-01'), NULL))),
  (1, array(), map(), named_struct('a', NULL, 'l', array())),
  (2, NULL, NULL, NULL),
  (3, array(NULL), map(3, NULL), named_struct('a', named_struct('b', NULL), 'l', NULL));
ALTER TABLE $table ADD COLUMN s.a.b.added INT FIRST;
ALTER TABLE $table ADD COLUMN s.l.element.y STRING;
INSERT INTO $table VALUES (4, NULL, NULL, named_struct('a', named_struct('b', named_struct('added', 1, 'c', NULL)),
  'l', array(named_struct('x', NULL, 'y', 'y'))));
ALTER TABLE $table ALTER COLUMN s FIRST;
OPTIMIZE $table;

-- table void: columns of no type, which no file holds
CREATE TABLE $table (id LONG, nothing VOID, v STRING) USING delta;
INSERT INTO $table VALUES (1, NULL, 'a');
ALTER TABLE $table ADD COLUMN also VOID;
INSERT INTO $table (id, v) VALUES (2, 'b');
DELETE FROM $table WHERE id = 1;

-- table void_nested: beside other fields of a struct
CREATE TABLE $table (id LONG, s STRUCT<nothing: VOID, a: INT>) USING delta;
INSERT INTO $table VALUES (1, named_struct('nothing', NULL, 'a', 1)), (2, NULL);
DELETE FROM $table WHERE id = 2;

-- table collations: text that compares without regard to case, which delta-spark writes when it is told to
SET spark.databricks.delta.schema.typeCheck.enabled=false;
CREATE TABLE $table (id LONG, s STRING COLLATE UTF8_LCASE, l ARRAY<STRING COLLATE UNICODE>) USING delta;
INSERT INTO $table VALUES (1, 'A', array('x', NULL)), (2, 'a', NULL), (3, 'b', array());
DELETE FROM $table WHERE s = 'B';

-- table variant: semi-structured values, top-level and nested
CREATE TABLE $table (id LONG, v VARIANT, s STRUCT<v: VARIANT>, l ARRAY<VARIANT>) USING delta;
INSERT INTO $table SELECT id, parse_json(j), named_struct('v', parse_json(j)), array(parse_json(j), NULL)
  FROM VALUES (0, '{"a": [1, 2.5, "x", null, true]}'), (1, '"text"'), (2, 'null'), (3, NULL) AS (id, j);
UPDATE $table SET v = parse_json('{"updated": {"deep": 1}}') WHERE id = 1;
DELETE FROM $table WHERE id = 0;
OPTIMIZE $table;

-- table variant_shredded: the same, with fields laid out as columns
SET spark.sql.variant.writeShredding.enabled=true;
SET spark.sql.variant.allowReadingShredded=true;
SET spark.sql.variant.forceShreddingSchemaForTest=a int, b string;
CREATE TABLE $table (id LONG, v VARIANT) USING delta TBLPROPERTIES ('delta.enableVariantShredding' = 'true');
INSERT INTO $table SELECT id, parse_json(j)
  FROM VALUES (0, '{"a": 1, "b": "x"}'), (1, '{"a": "no int", "c": 2}'), (2, '5'), (3, NULL), (4, '{"a": 7}') AS (id, j);
DELETE FROM $table WHERE id = 4;

-- table widening_of_integers: byte to short to int to long, byte to decimal and double
CREATE TABLE $table (id LONG, a BYTE, b BYTE, c SHORT, d INT) USING delta
  TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.checkpointInterval' = '3');
INSERT INTO $table VALUES (0, 127Y, -128Y, 32767S, 2147483647), (1, NULL, NULL, NULL, NULL);
ALTER TABLE $table ALTER COLUMN a TYPE SHORT;
INSERT INTO $table VALUES (2, 32767S, 1Y, 1S, 1);
ALTER TABLE $table ALTER COLUMN a TYPE INT;
ALTER TABLE $table ALTER COLUMN b TYPE DOUBLE;
INSERT INTO $table VALUES (3, 2147483647, 0.5, 1S, 1);
ALTER TABLE $table ALTER COLUMN a TYPE LONG;
ALTER TABLE $table ALTER COLUMN c TYPE DECIMAL(12, 2);
ALTER TABLE $table ALTER COLUMN d TYPE DECIMAL(20, 0);
INSERT INTO $table VALUES (4, 9223372036854775807, 1e300, 1234567890.12, 99999999999999999999);
DELETE FROM $table WHERE a = 127;
OPTIMIZE $table;

-- table widening_of_others: float to double, int to double, date to timestamp without a zone, decimals
CREATE TABLE $table (id LONG, f FLOAT, i INT, d DATE, p DECIMAL(6, 2), q DECIMAL(9, 0), l LONG) USING delta
  TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported');
INSERT INTO $table VALUES (0, 0.1, 2147483647, DATE'0001-01-01', 1234.56, 123456789, 9223372036854775807),
  (1, NULL, NULL, NULL, NULL, NULL, NULL);
ALTER TABLE $table ALTER COLUMN f TYPE DOUBLE;
ALTER TABLE $table ALTER COLUMN i TYPE DOUBLE;
ALTER TABLE $table ALTER COLUMN d TYPE TIMESTAMP_NTZ;
ALTER TABLE $table ALTER COLUMN p TYPE DECIMAL(20, 4);
ALTER TABLE $table ALTER COLUMN q TYPE DECIMAL(38, 10);
ALTER TABLE $table ALTER COLUMN l TYPE DECIMAL(20, 0);
INSERT INTO $table VALUES (2, 0.1D, 0.5D, TIMESTAMP_NTZ'2024-01-01 12:00:00', 1234567890123456.7891,
  1234567890123456789012345678.0123456789, 12345678901234567890);
UPDATE $table SET f = 1 WHERE id = 2;
OPTIMIZE $table;

-- table widening_nested: inside structs, arrays and maps, and of a partition column, under renames
CREATE TABLE $table (id LONG, s STRUCT<a: SHORT>, l ARRAY<STRUCT<x: FLOAT>>, m MAP<BYTE, INT>, part SHORT)
  USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.columnMapping.mode' = 'name');
INSERT INTO $table VALUES (0, named_struct('a', 1S), array(named_struct('x', float(0.1))), map(1Y, 1), 7S),
  (1, NULL, array(NULL), map(), NULL);
ALTER TABLE $table ALTER COLUMN s.a TYPE LONG;
ALTER TABLE $table ALTER COLUMN l.element.x TYPE DOUBLE;
ALTER TABLE $table ALTER COLUMN m.key TYPE INT;
ALTER TABLE $table ALTER COLUMN m.value TYPE LONG;
ALTER TABLE $table ALTER COLUMN part TYPE INT;
ALTER TABLE $table RENAME COLUMN s.a TO aa;
INSERT INTO $table VALUES (2, named_struct('aa', 9223372036854775807), array(named_struct('x', 0.1D)),
  map(100000, 9223372036854775807), 100000);
OPTIMIZE $table;

-- table widening_by_merge: widened while writing
SET spark.databricks.delta.schema.autoMerge.enabled=true;
CREATE TABLE $table (id INT, v FLOAT) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true');
INSERT INTO $table VALUES (1, 0.1);
INSERT INTO $table SELECT 3000000000L AS id, 0.1D AS v;
MERGE INTO $table t USING (SELECT 5L AS id, 2.5D AS v, 'new' AS w) s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;

-- table compression: codecs and page versions in one table
CREATE TABLE $table (id LONG, v STRING, d DOUBLE) USING delta;
SET spark.sql.parquet.compression.codec=uncompressed;
INSERT INTO $table SELECT id, repeat('a', 100), id / 3 FROM range(0, 5, 1, 1);
SET spark.sql.parquet.compression.codec=zstd;
INSERT INTO $table SELECT id, repeat('b', 100), id / 3 FROM range(5, 10, 1, 1);
SET spark.sql.parquet.compression.codec=gzip;
INSERT INTO $table SELECT id, repeat('c', 100), id / 3 FROM range(10, 15, 1, 1);
SET spark.sql.parquet.compression.codec=lz4_raw;
SET parquet.writer.version=PARQUET_2_0;
INSERT INTO $table SELECT id, repeat('d', 100), id / 3 FROM range(15, 20, 1, 1);
SET spark.sql.parquet.compression.codec=snappy;
INSERT INTO $table SELECT id, repeat('e', 100), id / 3 FROM range(20, 25, 1, 1);
