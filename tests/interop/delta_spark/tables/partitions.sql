-- table partition_by_string: characters that folders escape, empty, null, and the folder of nulls as a value
CREATE TABLE $table (id LONG, part STRING) USING delta PARTITIONED BY (part);
INSERT INTO $table VALUES (0, 'plain'), (1, 'a b'), (2, 'a%20b'), (3, 'k=v/ü'), (4, 'é:z'), (5, '50%'), (6, '#?&+'),
  (7, '\'q\'"'), (8, '{x}[y]^\\'), (9, '_hidden'), (10, '.dot'), (11, '漢字 😀'), (12, ''), (13, NULL), (14, 'a\nb\t'),
  (15, ' lead'), (16, 'trail '), (17, '..'), (18, '2024-01-01'), (19, '007'), (20, 'null');
INSERT INTO $table SELECT id + 100, part FROM $table VERSION AS OF 1;
DELETE FROM $table WHERE id IN (3, 13);
OPTIMIZE $table;

-- table partition_by_date: edges
CREATE TABLE $table (id LONG, part DATE) USING delta PARTITIONED BY (part);
INSERT INTO $table VALUES (0, DATE'0001-01-01'), (1, DATE'1582-10-15'), (2, DATE'9999-12-31'), (3, NULL),
  (4, DATE'2024-02-29');
DELETE FROM $table WHERE part = DATE'2024-02-29';

-- table partition_by_timestamp: values in UTC with a Z
CREATE TABLE $table (id LONG, part TIMESTAMP) USING delta PARTITIONED BY (part);
INSERT INTO $table VALUES (0, TIMESTAMP'0001-01-01 00:00:00Z'), (1, TIMESTAMP'1969-12-31 23:59:59.999999Z'),
  (2, TIMESTAMP'9999-12-31 23:59:59.999999Z'), (3, NULL), (4, TIMESTAMP'2024-02-29 12:00:00Z');
DELETE FROM $table WHERE id = 4;

-- table partition_by_timestamp_new_york: written by a session in another zone, values in UTC
SET spark.sql.session.timeZone=America/New_York;
CREATE TABLE $table (id LONG, part TIMESTAMP) USING delta PARTITIONED BY (part);
INSERT INTO $table VALUES (0, TIMESTAMP'2024-11-03 01:30:00'), (1, TIMESTAMP'2024-03-10 03:00:00.000001'),
  (2, TIMESTAMP'1969-12-31 19:00:00'), (3, NULL);
DELETE FROM $table WHERE id = 2;

-- table partition_by_timestamp_without_zone: values as older writers left them, in a zone nobody knows
SET spark.databricks.delta.write.utcTimestampPartitionValues=false;
CREATE TABLE $table (id LONG, part TIMESTAMP) USING delta PARTITIONED BY (part);
INSERT INTO $table VALUES (0, TIMESTAMP'2024-11-03 01:30:00Z'), (1, TIMESTAMP'2024-03-10 03:00:00.000001Z'), (2, NULL);
SET spark.databricks.delta.write.utcTimestampPartitionValues=true;
INSERT INTO $table VALUES (3, TIMESTAMP'2024-11-03 01:30:00Z');

-- table partition_by_decimal: scales and signs
CREATE TABLE $table (id LONG, part DECIMAL(20, 5)) USING delta PARTITIONED BY (part);
INSERT INTO $table VALUES (0, 0), (1, -0.00001), (2, 123456789012345.12345), (3, NULL), (4, 10), (5, 1.1);
DELETE FROM $table WHERE part = 10;

-- table partition_by_integers: four widths
CREATE TABLE $table (id LONG, a BYTE, b SHORT, c INT, d LONG) USING delta PARTITIONED BY (a, b, c, d);
INSERT INTO $table VALUES (0, 127Y, 32767S, 2147483647, 9223372036854775807),
  (1, -128Y, -32768S, -2147483648, -9223372036854775807), (2, NULL, 0S, NULL, 0), (3, NULL, NULL, NULL, NULL);
DELETE FROM $table WHERE b = 0;

-- table partition_by_floats: infinities, not a number, negative zero
CREATE TABLE $table (id LONG, a FLOAT, b DOUBLE) USING delta PARTITIONED BY (a, b);
INSERT INTO $table VALUES (0, float('nan'), double('inf')), (1, float('-inf'), double('nan')), (2, NULL, 1e300),
  (3, 0.1, 0.1), (4, float('-0.0'), double('-0.0')), (5, 0.0, 0.0), (6, 1e-10, 1e-10);
DELETE FROM $table WHERE id = 3;

-- table partition_by_boolean: with null
CREATE TABLE $table (id LONG, part BOOLEAN) USING delta PARTITIONED BY (part);
INSERT INTO $table VALUES (0, true), (1, false), (2, NULL);
DELETE FROM $table WHERE part;

-- table partition_by_binary: bytes that are text
CREATE TABLE $table (id LONG, part BINARY) USING delta PARTITIONED BY (part);
INSERT INTO $table VALUES (0, X'616263'), (1, X'01'), (2, X''), (3, NULL), (4, X'0A2F25');
DELETE FROM $table WHERE id = 1;

-- table partition_overwrites: replaced partitions, static and dynamic, and by a condition
CREATE TABLE $table (id LONG, part STRING, other INT) USING delta PARTITIONED BY (part, other);
INSERT INTO $table SELECT id, string(id % 3), int(id % 2) FROM range(0, 12, 1, 2);
SET spark.sql.sources.partitionOverwriteMode=dynamic;
INSERT OVERWRITE $table VALUES (100, '1', 0), (101, '9', 1);
SET spark.sql.sources.partitionOverwriteMode=static;
INSERT INTO $table REPLACE WHERE part = '2' SELECT 200, '2', 5;
INSERT OVERWRITE $table SELECT * FROM $table WHERE other = 0;
