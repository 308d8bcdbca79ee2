-- Studies of declared spaces. What was reported is evidence: inserted once and
-- never changed. Of a study itself only its end changes.

CREATE TABLE study (
  id TEXT PRIMARY KEY,
  problem TEXT NOT NULL,                -- in the caller's words
  device TEXT NOT NULL,
  spec TEXT NOT NULL,                   -- canonical JSON, db/study_json.h
  opened_us INTEGER NOT NULL,
  closed_us INTEGER NOT NULL            -- 0: open
) STRICT, WITHOUT ROWID;
CREATE INDEX study_by_key ON study (problem, device);
CREATE INDEX study_open ON study (id) WHERE closed_us = 0;

CREATE TABLE study_result (
  id INTEGER PRIMARY KEY,               -- in the order taken
  study TEXT NOT NULL REFERENCES study (id),
  config TEXT NOT NULL,                 -- 'block=128,order=row'
  outcome TEXT NOT NULL,
  detail TEXT NOT NULL,
  unix_us INTEGER NOT NULL,
  samples BLOB NOT NULL CHECK (length(samples) % 20 = 0)  -- as in trial
) STRICT;
CREATE INDEX study_result_by_study ON study_result (study);

CREATE TRIGGER study_no_update
  BEFORE UPDATE OF id, problem, device, spec, opened_us ON study
  BEGIN SELECT RAISE (ABORT, 'study is append-only but for its end'); END;
CREATE TRIGGER study_ends_once BEFORE UPDATE OF closed_us ON study
  WHEN OLD.closed_us <> 0
  BEGIN SELECT RAISE (ABORT, 'study is append-only but for its end'); END;
CREATE TRIGGER study_no_delete BEFORE DELETE ON study
  BEGIN SELECT RAISE (ABORT, 'study is append-only'); END;
CREATE TRIGGER study_result_no_update BEFORE UPDATE ON study_result
  BEGIN SELECT RAISE (ABORT, 'study_result is append-only'); END;
CREATE TRIGGER study_result_no_delete BEFORE DELETE ON study_result
  BEGIN SELECT RAISE (ABORT, 'study_result is append-only'); END;
