-- table schema_evolution: columns added, commented, moved; the schema replaced
CREATE TABLE $table (id INT, v STRING) USING delta;
INSERT INTO $table VALUES (1, 'a');
ALTER TABLE $table ADD COLUMNS (w DOUBLE COMMENT 'added' AFTER id, s STRUCT<a: INT>);
INSERT INTO $table VALUES (2, 0.5, 'b', named_struct('a', 1));
SET spark.databricks.delta.schema.autoMerge.enabled=true;
INSERT INTO $table SELECT 3 AS id, 1.5D AS w, 'c' AS v, named_struct('a', 2, 'b', 'new') AS s, DATE'2024-01-01' AS d;
MERGE INTO $table t USING (SELECT 3 AS id, 'm' AS merged) s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
CREATE OR REPLACE TABLE $table USING delta PARTITIONED BY (v) AS SELECT id, string(id) AS v FROM range(0, 4, 1, 1);
ALTER TABLE $table ALTER COLUMN id COMMENT 'the key';
INSERT INTO $table VALUES (9, '9');

-- table restored: back and forth
CREATE TABLE $table (id LONG, v STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true');
INSERT INTO $table SELECT id, 'a' FROM range(0, 10, 1, 2);
DELETE FROM $table WHERE id % 2 = 0;
OPTIMIZE $table;
RESTORE TABLE $table TO VERSION AS OF 1;
DELETE FROM $table WHERE id = 3;
RESTORE TABLE $table TO VERSION AS OF 2;
ALTER TABLE $table ADD COLUMN w INT;
RESTORE TABLE $table TO VERSION AS OF 5;

-- table converted: Parquet files that were there before the log, with partitions
INSERT OVERWRITE DIRECTORY '$path/part=a%20b' USING parquet SELECT id, string(id) AS v FROM range(0, 3, 1, 1);
INSERT OVERWRITE DIRECTORY '$path/part=2' USING parquet SELECT id, string(id) AS v FROM range(3, 6, 1, 1);
INSERT OVERWRITE DIRECTORY '$path/part=__HIVE_DEFAULT_PARTITION__' USING parquet
  SELECT id, string(id) AS v FROM range(6, 8, 1, 1);
CONVERT TO DELTA parquet.`$path` PARTITIONED BY (part STRING);
INSERT INTO $table VALUES (10, 'x', 'new');
DELETE FROM $table WHERE id = 4;

-- table rewritten: z-ordered, deleted as a whole, filled again
CREATE TABLE $table (id LONG, a INT, b STRING) USING delta;
INSERT INTO $table SELECT id, int(id % 5), string(id) FROM range(0, 20, 1, 2);
OPTIMIZE $table ZORDER BY (a, b);
TRUNCATE TABLE $table;
INSERT INTO $table SELECT id, int(id % 5), string(id) FROM range(0, 4, 1, 1);
INSERT OVERWRITE $table SELECT id, 1, 'o' FROM range(0, 2, 1, 1);
DELETE FROM $table;

-- table empty: no row ever
CREATE TABLE $table (id LONG, part STRING) USING delta PARTITIONED BY (part);
INSERT INTO $table SELECT 1L, 'a' WHERE false;
ALTER TABLE $table SET TBLPROPERTIES ('team' = 'nobody');

-- table vacuumed: files of older versions are gone
CREATE TABLE $table (id LONG) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true');
INSERT INTO $table SELECT id FROM range(0, 10, 1, 2);
DELETE FROM $table WHERE id = 1;
DELETE FROM $table WHERE id = 2;
OPTIMIZE $table;
DELETE FROM $table WHERE id = 3;
SET spark.databricks.delta.retentionDurationCheck.enabled=false;
VACUUM $table RETAIN 0 HOURS;

-- table optimized_writes: auto compaction and optimised writes
SET spark.databricks.delta.autoCompact.minNumFiles=2;
CREATE TABLE $table (id LONG, part STRING) USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'true', 'delta.autoOptimize.optimizeWrite' = 'true');
INSERT INTO $table SELECT id, string(id % 2) FROM range(0, 10, 1, 2);
INSERT INTO $table SELECT id, string(id % 2) FROM range(10, 20, 1, 2);
DELETE FROM $table WHERE id = 4;

-- table letter_case: columns written in another case than the schema's
CREATE TABLE $table (Id LONG, `Mixed Case` STRING, Part STRING) USING delta PARTITIONED BY (Part)
  TBLPROPERTIES ('delta.columnMapping.mode' = 'name');
INSERT INTO $table SELECT id AS ID, 'x' AS `MIXED case`, 'p' AS PART FROM range(0, 3, 1, 1);
INSERT INTO $table (part, ID, `mixed CASE`) VALUES ('q', 5, 'y');
UPDATE $table SET `mixed case` = 'z' WHERE ID = 1;
