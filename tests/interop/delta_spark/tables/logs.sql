-- table checkpoint_classic: two classic checkpoints, JSON and struct statistics
CREATE TABLE $table (id LONG, part STRING, at TIMESTAMP) USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.checkpointInterval' = '3');
INSERT INTO $table SELECT id, string(id % 2), timestamp_seconds(id * 100000) FROM range(0, 10, 1, 2);
INSERT INTO $table VALUES (10, NULL, NULL);
DELETE FROM $table WHERE id = 3;
UPDATE $table SET part = '1' WHERE id = 4;
OPTIMIZE $table;
INSERT INTO $table VALUES (11, '', TIMESTAMP'2024-01-01 00:00:00.123456Z');
INSERT INTO $table VALUES (12, '0', TIMESTAMP'2024-01-01 00:00:00Z');

-- table checkpoint_struct_statistics: checkpoints without the JSON form of statistics
CREATE TABLE $table (id LONG, s STRUCT<a: DATE, b: DECIMAL(20, 5)>, t STRING) USING delta TBLPROPERTIES (
  'delta.checkpointInterval' = '2', 'delta.checkpoint.writeStatsAsJson' = 'false',
  'delta.checkpoint.writeStatsAsStruct' = 'true');
INSERT INTO $table SELECT id, named_struct('a', date_add(DATE'2020-01-01', int(id)), 'b', id / 3), repeat('ü', 40)
  FROM range(0, 10, 1, 2);
INSERT INTO $table VALUES (10, NULL, NULL);
DELETE FROM $table WHERE id = 3;
INSERT INTO $table VALUES (11, named_struct('a', NULL, 'b', 1), 'x');
-- cleaned 4

-- table checkpoint_json_statistics: checkpoints without the struct form
CREATE TABLE $table (id LONG, t STRING) USING delta TBLPROPERTIES (
  'delta.checkpointInterval' = '2', 'delta.checkpoint.writeStatsAsJson' = 'true',
  'delta.checkpoint.writeStatsAsStruct' = 'false');
INSERT INTO $table SELECT id, string(id) FROM range(0, 10, 1, 2);
INSERT INTO $table VALUES (10, NULL);
DELETE FROM $table WHERE id = 3;
-- cleaned 2

-- table checkpoint_mapped: struct statistics and partition values by physical names, vectors, and no commit before it
CREATE TABLE $table (id LONG, s STRUCT<a: STRING, b: DATE>, `part by` STRING) USING delta PARTITIONED BY (`part by`)
  TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true',
    'delta.checkpointInterval' = '4', 'delta.checkpoint.writeStatsAsJson' = 'false',
    'delta.checkpoint.writeStatsAsStruct' = 'true');
INSERT INTO $table SELECT id, named_struct('a', string(id), 'b', DATE'2024-01-01'), string(id % 2)
  FROM range(0, 10, 1, 2);
ALTER TABLE $table RENAME COLUMN s.a TO `renamed a`;
DELETE FROM $table WHERE id = 3;
ALTER TABLE $table RENAME COLUMN `part by` TO part;
INSERT INTO $table VALUES (10, NULL, NULL), (11, named_struct('renamed a', 'x', 'b', NULL), '1');
-- cleaned 4

-- table checkpoint_multi_part: classic checkpoints of several parts
SET spark.databricks.delta.checkpoint.partSize=8;
CREATE TABLE $table (id LONG, part LONG) USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.checkpointInterval' = '3');
INSERT INTO $table SELECT id, id % 4 FROM range(0, 16, 1, 2);
DELETE FROM $table WHERE part = 1;
INSERT INTO $table SELECT id, id % 4 FROM range(16, 24, 1, 2);
INSERT INTO $table VALUES (24, 9);
-- cleaned 3

-- table checkpoint_v2_json: UUID checkpoints in JSON, several sidecars
SET spark.databricks.delta.checkpointV2.topLevelFileFormat=json;
SET spark.databricks.delta.checkpoint.partSize=10;
CREATE TABLE $table (id LONG, part LONG) USING delta PARTITIONED BY (part) TBLPROPERTIES (
  'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '3');
INSERT INTO $table SELECT id, id % 4 FROM range(0, 16, 1, 2);
DELETE FROM $table WHERE part = 1;
INSERT INTO $table SELECT id, id % 4 FROM range(16, 24, 1, 2);
UPDATE $table SET id = -id WHERE id > 20;
OPTIMIZE $table;
INSERT INTO $table VALUES (24, 9);
INSERT INTO $table VALUES (25, 9);

-- table checkpoint_v2_parquet: UUID checkpoints in Parquet, several sidecars
SET spark.databricks.delta.checkpointV2.topLevelFileFormat=parquet;
SET spark.databricks.delta.checkpoint.partSize=10;
CREATE TABLE $table (id LONG, part LONG) USING delta PARTITIONED BY (part) TBLPROPERTIES (
  'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '3');
INSERT INTO $table SELECT id, id % 4 FROM range(0, 16, 1, 2);
DELETE FROM $table WHERE part = 1;
INSERT INTO $table SELECT id, id % 4 FROM range(16, 24, 1, 2);
UPDATE $table SET id = -id WHERE id > 20;
INSERT INTO $table VALUES (24, 9);
-- cleaned 3

-- table checkpoint_v2_left: from v2 checkpoints back to classic ones
CREATE TABLE $table (id LONG) USING delta TBLPROPERTIES (
  'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2');
INSERT INTO $table VALUES (1);
INSERT INTO $table VALUES (2);
ALTER TABLE $table SET TBLPROPERTIES ('delta.checkpointPolicy' = 'classic');
INSERT INTO $table VALUES (3);
INSERT INTO $table VALUES (4);
INSERT INTO $table VALUES (5);

-- table log_compaction: commits 2 to 4 and 5 to 6 are in compacted files as well
CREATE TABLE $table (id LONG, v STRING) USING delta TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '100');
INSERT INTO $table SELECT id, 'a' FROM range(0, 10, 1, 2);
DELETE FROM $table WHERE id = 1;
UPDATE $table SET v = 'b' WHERE id = 2;
ALTER TABLE $table ADD COLUMN w INT;
INSERT INTO $table VALUES (10, 'c', 1);
DELETE FROM $table WHERE id > 7;
INSERT INTO $table VALUES (11, 'd', 2);
-- compacted 2 4
-- compacted 5 6

-- table without_checksums: no version checksum files
SET spark.databricks.delta.writeChecksumFile.enabled=false;
CREATE TABLE $table (id LONG) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '2');
INSERT INTO $table SELECT id FROM range(0, 5, 1, 1);
INSERT INTO $table VALUES (7);
DELETE FROM $table WHERE id = 2;

-- table in_commit_timestamps: times of commits are in the commits; the files' own times say otherwise
CREATE TABLE $table (id LONG) USING delta TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true');
INSERT INTO $table VALUES (1);
INSERT INTO $table VALUES (2);
DELETE FROM $table WHERE id = 1;
INSERT INTO $table VALUES (3);
-- aged 0 4 30

-- table in_commit_timestamps_enabled_later: times of files up to version 2, of commits from there on
CREATE TABLE $table (id LONG) USING delta;
INSERT INTO $table VALUES (1);
INSERT INTO $table VALUES (2);
-- aged 0 2 20
ALTER TABLE $table SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true');
INSERT INTO $table VALUES (3);
INSERT INTO $table VALUES (4);
-- aged 4 5 10

-- table many_commits: forty commits, four checkpoints
CREATE TABLE $table (id LONG, k INT) USING delta;
-- repeated 40
INSERT INTO $table SELECT id, $n FROM range($n, $n + 2, 1, 1);

-- table cleaned_up: delta-spark's own clean-up took the oldest commits
CREATE TABLE $table (id LONG) USING delta TBLPROPERTIES (
  'delta.checkpointInterval' = '3', 'delta.logRetentionDuration' = 'interval 10 days');
INSERT INTO $table VALUES (1);
INSERT INTO $table VALUES (2);
INSERT INTO $table VALUES (3);
INSERT INTO $table VALUES (4);
-- aged 0 4 40
INSERT INTO $table VALUES (5);
INSERT INTO $table VALUES (6);
DELETE FROM $table WHERE id = 1;

-- table cleaned_up_v2: the same with v2 checkpoints
CREATE TABLE $table (id LONG) USING delta TBLPROPERTIES ('delta.checkpointPolicy' = 'v2',
  'delta.checkpointInterval' = '3', 'delta.logRetentionDuration' = 'interval 10 days');
INSERT INTO $table VALUES (1);
INSERT INTO $table VALUES (2);
INSERT INTO $table VALUES (3);
INSERT INTO $table VALUES (4);
-- aged 0 4 40
INSERT INTO $table VALUES (5);
INSERT INTO $table VALUES (6);
DELETE FROM $table WHERE id = 1;

-- table protocols: from reader 1, writer 1 up to feature lists
CREATE TABLE $table (id LONG, v STRING) USING delta TBLPROPERTIES (
  'delta.minReaderVersion' = '1', 'delta.minWriterVersion' = '1');
INSERT INTO $table VALUES (1, 'a');
ALTER TABLE $table SET TBLPROPERTIES ('delta.minWriterVersion' = '4');
INSERT INTO $table VALUES (2, 'b');
ALTER TABLE $table SET TBLPROPERTIES ('delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '6');
INSERT INTO $table VALUES (3, 'c');
ALTER TABLE $table SET TBLPROPERTIES ('delta.minReaderVersion' = '3', 'delta.minWriterVersion' = '7');
INSERT INTO $table VALUES (4, 'd');
ALTER TABLE $table SET TBLPROPERTIES ('delta.feature.vacuumProtocolCheck' = 'supported');
INSERT INTO $table VALUES (5, 'e');

-- table an odd/földer 100% a%20b: a table below folders with spaces, percent signs and other letters
CREATE TABLE $table (id LONG, part STRING) USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '2');
INSERT INTO $table VALUES (1, 'a%20b'), (2, 'a b'), (3, 'a+b'), (4, 'a/b');
DELETE FROM $table WHERE id = 3;
INSERT INTO $table VALUES (5, 'a%20b'), (6, 'a%20b');
DELETE FROM $table WHERE id = 5;

-- table applications: commits of applications that count their own versions
SET spark.databricks.delta.write.txnAppId=loader;
SET spark.databricks.delta.write.txnVersion=1;
CREATE TABLE $table USING delta AS SELECT id FROM range(0, 3, 1, 1);
SET spark.databricks.delta.write.txnVersion=2;
INSERT INTO $table VALUES (10);
INSERT INTO $table VALUES (11);
