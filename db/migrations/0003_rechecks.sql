-- What fewer kernels would cost beside each table, checks of tables on devices
-- as they are now, and an index for the times of trials.

CREATE TABLE trade_off (
  dispatch_table INTEGER NOT NULL REFERENCES dispatch_table (id),
  kernels INTEGER NOT NULL,
  worst_regret REAL NOT NULL,
  mean_regret REAL NOT NULL,
  compile_ms INTEGER NOT NULL,
  proven INTEGER NOT NULL CHECK (proven IN (0, 1)),
  PRIMARY KEY (dispatch_table, kernels)
) STRICT, WITHOUT ROWID;

-- One run of a recheck: a sample of (table, M), timed anew.
CREATE TABLE recheck (
  id INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL,             -- of its trials
  device INTEGER NOT NULL REFERENCES device (id),
  unix_us INTEGER NOT NULL,
  keys INTEGER NOT NULL,
  median_regret REAL,                   -- of local tables' keys; NULL: none
  regret_limit REAL NOT NULL
) STRICT;

-- What it found of each table that it was about.
CREATE TABLE recheck_table (
  recheck INTEGER NOT NULL REFERENCES recheck (id),
  dispatch_table INTEGER NOT NULL REFERENCES dispatch_table (id),
  keys INTEGER NOT NULL,                -- 0: judged by the others' keys
  median_regret REAL,                   -- NULL: no key, or a kernel failed
  -- 'kept' and 'verified' tables answer on the recheck's device without a word
  -- of its soft fields.
  verdict TEXT NOT NULL CHECK (verdict IN
    ('kept', 'verified', 'unverified', 'retune', 'unknown')),
  PRIMARY KEY (recheck, dispatch_table)
) STRICT, WITHOUT ROWID;
CREATE INDEX recheck_by_table ON recheck_table (dispatch_table);

-- The least median of each config at each M, without touching the samples.
CREATE INDEX trial_times
  ON trial (problem, device_class, protocol, m, config, median_ns)
  WHERE outcome = 'measured';

CREATE TRIGGER trade_off_no_update BEFORE UPDATE ON trade_off
  BEGIN SELECT RAISE (ABORT, 'trade_off is append-only'); END;
CREATE TRIGGER trade_off_no_delete BEFORE DELETE ON trade_off
  BEGIN SELECT RAISE (ABORT, 'trade_off is append-only'); END;
CREATE TRIGGER recheck_no_update BEFORE UPDATE ON recheck
  BEGIN SELECT RAISE (ABORT, 'recheck is append-only'); END;
CREATE TRIGGER recheck_no_delete BEFORE DELETE ON recheck
  BEGIN SELECT RAISE (ABORT, 'recheck is append-only'); END;
CREATE TRIGGER recheck_table_no_update BEFORE UPDATE ON recheck_table
  BEGIN SELECT RAISE (ABORT, 'recheck_table is append-only'); END;
CREATE TRIGGER recheck_table_no_delete BEFORE DELETE ON recheck_table
  BEGIN SELECT RAISE (ABORT, 'recheck_table is append-only'); END;
