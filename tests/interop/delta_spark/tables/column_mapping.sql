-- table mapping_by_name: created in name mode with names that Parquet would refuse
CREATE TABLE $table (id LONG, `a b,c` STRING, `{x}=(y)` INT, part STRING) USING delta PARTITIONED BY (part)
  TBLPROPERTIES ('delta.columnMapping.mode' = 'name');
INSERT INTO $table SELECT id, concat('v', id), id, concat('p=', id % 2) FROM range(0, 10, 1, 2);
ALTER TABLE $table RENAME COLUMN `a b,c` TO renamed;
INSERT INTO $table SELECT id, 'after', -id, NULL FROM range(10, 14, 1, 1);
ALTER TABLE $table DROP COLUMN `{x}=(y)`;
INSERT INTO $table SELECT id, 'dropped', 'p=1' FROM range(14, 17, 1, 1);
ALTER TABLE $table ADD COLUMN `{x}=(y)` STRING AFTER id;
INSERT INTO $table SELECT id, 'again', 'added', 'p=0' FROM range(17, 20, 1, 1);
ALTER TABLE $table RENAME COLUMN part TO `the part`;
UPDATE $table SET renamed = 'updated' WHERE id % 4 = 0;
DELETE FROM $table WHERE `the part` = 'p=1' AND id < 5;
OPTIMIZE $table;

-- table mapping_by_name_nested: renames, drops and additions inside structs, arrays and maps
CREATE TABLE $table (
  id LONG,
  s STRUCT<a: INT, b: STRUCT<c: STRING, d: DOUBLE>>,
  l ARRAY<STRUCT<x: INT, y: STRING>>,
  m MAP<STRING, STRUCT<k: LONG, w: ARRAY<STRUCT<z: INT>>>>
) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name');
INSERT INTO $table SELECT id, named_struct('a', int(id), 'b', named_struct('c', string(id), 'd', id / 2)),
  array(named_struct('x', int(id), 'y', 'y')), map('k', named_struct('k', id, 'w', array(named_struct('z', 1))))
  FROM range(0, 4, 1, 1);
INSERT INTO $table VALUES (4, NULL, NULL, NULL), (5, named_struct('a', NULL, 'b', NULL), array(), map());
ALTER TABLE $table RENAME COLUMN s.b.c TO `renamed c`;
ALTER TABLE $table DROP COLUMN s.a;
ALTER TABLE $table RENAME COLUMN l.element.x TO xx;
ALTER TABLE $table ADD COLUMN m.value.added STRING FIRST;
INSERT INTO $table SELECT id, named_struct('b', named_struct('renamed c', 'new', 'd', 0.5)),
  array(named_struct('xx', 7, 'y', 'z'), NULL),
  map('q', named_struct('added', 'here', 'k', id, 'w', array(named_struct('z', 2), NULL)), 'n', NULL)
  FROM range(6, 8, 1, 1);
ALTER TABLE $table DROP COLUMN s.b.d;
ALTER TABLE $table ADD COLUMN s.a STRING;
UPDATE $table SET id = id + 100 WHERE id = 7;
OPTIMIZE $table;

-- table mapping_by_id: created in id mode
CREATE TABLE $table (id LONG, s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>, part INT)
  USING delta PARTITIONED BY (part) TBLPROPERTIES ('delta.columnMapping.mode' = 'id');
INSERT INTO $table SELECT id, named_struct('a', int(id), 'b', 'b'), array(named_struct('x', int(id))),
  map('k', int(id)), int(id % 2) FROM range(0, 6, 1, 2);
ALTER TABLE $table RENAME COLUMN s.a TO z;
ALTER TABLE $table DROP COLUMN m;
ALTER TABLE $table ADD COLUMN m MAP<STRING, INT>;
INSERT INTO $table VALUES (10, named_struct('z', 1, 'b', NULL), array(NULL), 1, map('new', 1));
DELETE FROM $table WHERE id = 1;
OPTIMIZE $table;

-- table mapping_upgraded: files without field ids, from before the upgrade
CREATE TABLE $table (id LONG, name STRING, s STRUCT<a: INT, b: STRING>, part STRING) USING delta PARTITIONED BY (part);
INSERT INTO $table SELECT id, concat('n', id), named_struct('a', int(id), 'b', 'b'), 'p' FROM range(0, 5, 1, 1);
ALTER TABLE $table SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name',
  'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5');
INSERT INTO $table VALUES (5, 'mapped', named_struct('a', 5, 'b', 'bb'), 'q');
ALTER TABLE $table RENAME COLUMN name TO title;
ALTER TABLE $table RENAME COLUMN s.a TO aa;
ALTER TABLE $table RENAME COLUMN part TO piece;
ALTER TABLE $table ADD COLUMN name LONG;
INSERT INTO $table VALUES (6, 'both', named_struct('aa', 6, 'b', NULL), 'p', 66);
ALTER TABLE $table DROP COLUMN title;
UPDATE $table SET name = id WHERE id = 2;
ALTER TABLE $table RENAME COLUMN name TO title;

-- table mapping_removed: name mode taken off again, which rewrites every file
CREATE TABLE $table (id LONG, old STRING) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name');
INSERT INTO $table VALUES (1, 'a'), (2, 'b');
ALTER TABLE $table RENAME COLUMN old TO new;
INSERT INTO $table VALUES (3, 'c');
ALTER TABLE $table SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none');
INSERT INTO $table VALUES (4, 'd');

-- table mapping_with_everything: name mode, vectors, change data, partitions, a v2 checkpoint
CREATE TABLE $table (id LONG, v STRING, part DATE) USING delta PARTITIONED BY (part) TBLPROPERTIES (
  'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true',
  'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '4');
INSERT INTO $table SELECT id, string(id), date_add(DATE'2024-02-28', int(id % 3)) FROM range(0, 12, 1, 2);
ALTER TABLE $table RENAME COLUMN v TO `v v`;
DELETE FROM $table WHERE id IN (1, 4);
UPDATE $table SET `v v` = 'u' WHERE id = 2;
ALTER TABLE $table ADD COLUMN extra INT;
INSERT INTO $table VALUES (20, 'x', DATE'2024-03-01', 5);
DELETE FROM $table WHERE part = DATE'2024-02-29';
