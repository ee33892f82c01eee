-- table deletion_vectors: vectors of one file set, replaced, purged, and left over when the property goes
CREATE TABLE $table (id LONG, name STRING, amount DECIMAL(10, 2)) USING delta
  TBLPROPERTIES ('delta.enableDeletionVectors' = 'true');
INSERT INTO $table SELECT id, concat('n', id), id / 4 FROM range(0, 40, 1, 2);
DELETE FROM $table WHERE id % 5 = 1;
DELETE FROM $table WHERE id % 7 = 2;
UPDATE $table SET name = upper(name), amount = NULL WHERE id BETWEEN 10 AND 13;
INSERT INTO $table SELECT id, NULL, id FROM range(40, 50, 1, 1);
MERGE INTO $table t USING (SELECT id * 3 AS id FROM range(0, 20, 1, 1)) s ON t.id = s.id
  WHEN MATCHED AND t.id % 2 = 0 THEN DELETE
  WHEN MATCHED THEN UPDATE SET name = 'merged'
  WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new');
DELETE FROM $table WHERE id BETWEEN 40 AND 49;
ALTER TABLE $table SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false');
INSERT INTO $table VALUES (100, 'after', 1.5);
DELETE FROM $table WHERE id = 0;
REORG TABLE $table APPLY (PURGE);
ALTER TABLE $table SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true');
DELETE FROM $table WHERE id = 100;
OPTIMIZE $table;

-- table deletion_vectors_prefixed: data files and vectors below random prefixes, vectors of several files in one file
CREATE TABLE $table (id LONG, part STRING) USING delta PARTITIONED BY (part) TBLPROPERTIES (
  'delta.enableDeletionVectors' = 'true', 'delta.randomizeFilePrefixes' = 'true', 'delta.randomPrefixLength' = '3');
INSERT INTO $table SELECT id, concat('p ', id % 3) FROM range(0, 30, 1, 2);
DELETE FROM $table WHERE id % 10 = 4;
DELETE FROM $table WHERE id % 10 = 5;
UPDATE $table SET part = 'p 0' WHERE id = 8;
DELETE FROM $table WHERE part = 'p 1';

-- table deletion_vectors_checkpointed: vectors that are only in a checkpoint
CREATE TABLE $table (id LONG, v STRING) USING delta
  TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '3');
INSERT INTO $table SELECT id, 'x' FROM range(0, 20, 1, 2);
DELETE FROM $table WHERE id % 3 = 1;
DELETE FROM $table WHERE id % 3 = 2;
INSERT INTO $table SELECT id, 'y' FROM range(20, 30, 1, 1);
DELETE FROM $table WHERE id = 21;
DELETE FROM $table WHERE id = 24;
INSERT INTO $table VALUES (99, 'z');
-- cleaned 6

-- table deletion_vectors_dropped: the feature was dropped, which leaves checkpoint protection
CREATE TABLE $table (id LONG) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true');
INSERT INTO $table SELECT id FROM range(0, 10, 1, 1);
DELETE FROM $table WHERE id = 3;
ALTER TABLE $table DROP FEATURE deletionVectors;
INSERT INTO $table VALUES (11);

-- table deletion_vectors_many_rows: a vector of more than one container
CREATE TABLE $table (id LONG) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true');
INSERT INTO $table SELECT id FROM range(0, 70000, 1, 1);
DELETE FROM $table WHERE id % 1000 <> 7;
DELETE FROM $table WHERE id = 69007;
