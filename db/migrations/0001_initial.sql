-- Trials, tables and revisions. Every row is evidence: it is inserted once and
-- never changed, save `session` (its status) and `alias` (a cache).
--
-- Values that many rows share (devices, problems, kernels, configs, protocols)
-- have tables of their own, keyed by the SHA-256 of their canonical text.

CREATE TABLE device_class (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,            -- DeviceSpec::ClassHash()
  text TEXT NOT NULL,                   -- DeviceSpec::ClassText()
  kind TEXT NOT NULL CHECK (kind IN ('measured', 'modelled')),
  model TEXT NOT NULL,                  -- of a modelled device, else ''
  sm_arch INTEGER NOT NULL,
  pci_device_id INTEGER NOT NULL,
  sm_count INTEGER NOT NULL,
  l2_bytes INTEGER NOT NULL,
  smem_optin_bytes INTEGER NOT NULL,
  mig_profile TEXT NOT NULL
) STRICT;

-- One GPU in one state: a new driver or power limit makes a new row.
CREATE TABLE device (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,            -- of the device's text in bundles
  device_class INTEGER NOT NULL REFERENCES device_class (id),
  soft TEXT NOT NULL,                   -- DeviceSpec::SoftText()
  cuda_driver_version INTEGER NOT NULL,
  driver TEXT NOT NULL,
  pci_subsystem_id INTEGER NOT NULL,
  power_limit_mw INTEGER NOT NULL,
  ecc INTEGER NOT NULL CHECK (ecc IN (0, 1)),
  vbios TEXT NOT NULL,
  name TEXT NOT NULL,
  uuid TEXT NOT NULL,
  smem_per_sm_bytes INTEGER NOT NULL,
  registers_per_sm INTEGER NOT NULL,
  max_threads_per_sm INTEGER NOT NULL,
  max_clock_khz INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL,
  memory_gbps REAL NOT NULL,
  mma_sync_tflops REAL NOT NULL,
  peak_tflops REAL NOT NULL,
  launch_ns REAL NOT NULL,
  UNIQUE (id, device_class)
) STRICT;

CREATE TABLE problem (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL,
  n INTEGER NOT NULL,
  k INTEGER NOT NULL,
  experts INTEGER NOT NULL,
  a TEXT NOT NULL,
  b TEXT NOT NULL,
  c TEXT NOT NULL,
  b_scale TEXT NOT NULL,
  b_group INTEGER NOT NULL,
  gemm TEXT NOT NULL
) STRICT;

CREATE TABLE config (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL
) STRICT;

CREATE TABLE protocol (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL
) STRICT;

-- What one source compiled to; cubin_hash is '' when it did not compile.
CREATE TABLE kernel (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,            -- of all columns below
  cubin_hash TEXT NOT NULL,
  kernel_id TEXT NOT NULL,
  source_key TEXT NOT NULL,
  nvrtc_version TEXT NOT NULL,
  registers INTEGER NOT NULL,
  spill_bytes INTEGER NOT NULL,
  stack_bytes INTEGER NOT NULL,
  smem_bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX kernel_by_kernel_id ON kernel (kernel_id);

-- Rendered source → cubin, without compiling.
CREATE TABLE alias (
  source_key TEXT PRIMARY KEY,
  kernel INTEGER NOT NULL REFERENCES kernel (id),
  compile_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE session (
  id TEXT PRIMARY KEY,
  problem INTEGER NOT NULL REFERENCES problem (id),
  device INTEGER NOT NULL REFERENCES device (id),
  protocol INTEGER NOT NULL REFERENCES protocol (id),
  status TEXT NOT NULL CHECK (status IN
    ('running', 'finished', 'cancelled', 'failed', 'interrupted')),
  detail TEXT NOT NULL,
  started_us INTEGER NOT NULL,
  finished_us INTEGER NOT NULL          -- 0: not known
) STRICT, WITHOUT ROWID;
CREATE INDEX session_by_start ON session (started_us);

CREATE TABLE trial (
  id INTEGER PRIMARY KEY,
  problem INTEGER NOT NULL REFERENCES problem (id),
  device INTEGER NOT NULL,
  device_class INTEGER NOT NULL,
  protocol INTEGER NOT NULL REFERENCES protocol (id),
  m INTEGER NOT NULL,
  config INTEGER NOT NULL REFERENCES config (id),
  kernel INTEGER NOT NULL REFERENCES kernel (id),
  compile_ms INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  detail TEXT NOT NULL,
  gate TEXT NOT NULL,
  relative_norm REAL,                   -- NULL is NaN
  worst_ratio REAL,                     -- NULL is NaN
  median_ns INTEGER NOT NULL,
  session_id TEXT NOT NULL,             -- '' or a session, begun here or not
  unix_us INTEGER NOT NULL,
  -- 20 bytes a sample, little-endian: duration_ns int64, sm_clock_khz int64,
  -- round int32.
  samples BLOB NOT NULL CHECK (length(samples) % 20 = 0),
  FOREIGN KEY (device, device_class) REFERENCES device (id, device_class)
) STRICT;
CREATE INDEX trial_by_key ON trial (problem, device_class, protocol, m);
CREATE INDEX trial_by_session ON trial (session_id);
CREATE INDEX trial_by_device ON trial (device);

CREATE TABLE revision (
  id INTEGER PRIMARY KEY,
  unix_us INTEGER NOT NULL,
  bundle TEXT NOT NULL                  -- SHA-256 of an import, else ''
) STRICT;

CREATE TABLE dispatch_table (
  id INTEGER PRIMARY KEY,
  revision INTEGER NOT NULL REFERENCES revision (id),
  -- 'local' sorts after 'imported': the greatest (origin, revision, id) of a
  -- problem and device class is the table that answers.
  origin TEXT NOT NULL CHECK (origin IN ('local', 'imported')),
  problem INTEGER NOT NULL REFERENCES problem (id),
  device INTEGER NOT NULL,
  device_class INTEGER NOT NULL,
  protocol INTEGER NOT NULL REFERENCES protocol (id),
  gate TEXT NOT NULL,
  source_closure TEXT NOT NULL,
  ladder TEXT NOT NULL,                 -- '1,2,4'
  session_id TEXT NOT NULL,
  unix_us INTEGER NOT NULL,
  content_hash TEXT NOT NULL,           -- of the table's text in bundles
  FOREIGN KEY (device, device_class) REFERENCES device (id, device_class)
) STRICT;
CREATE INDEX dispatch_table_by_key
  ON dispatch_table (problem, device_class, origin, revision);
CREATE INDEX dispatch_table_by_content ON dispatch_table (content_hash);

CREATE TABLE table_entry (
  dispatch_table INTEGER NOT NULL REFERENCES dispatch_table (id),
  position INTEGER NOT NULL,
  m_lo INTEGER NOT NULL,
  m_hi INTEGER NOT NULL,                -- 0: without end
  config INTEGER NOT NULL REFERENCES config (id),
  kernel INTEGER NOT NULL REFERENCES kernel (id),
  compile_ms INTEGER NOT NULL,
  PRIMARY KEY (dispatch_table, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE evidence (
  dispatch_table INTEGER NOT NULL,
  entry INTEGER NOT NULL,
  m INTEGER NOT NULL,
  samples INTEGER NOT NULL,
  median_ns INTEGER NOT NULL,
  low_ns INTEGER NOT NULL,
  high_ns INTEGER NOT NULL,
  default_median_ns INTEGER NOT NULL,
  margin REAL NOT NULL,
  floor_ns INTEGER NOT NULL,
  PRIMARY KEY (dispatch_table, entry, m),
  FOREIGN KEY (dispatch_table, entry)
    REFERENCES table_entry (dispatch_table, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE evidence_tie (
  dispatch_table INTEGER NOT NULL,
  entry INTEGER NOT NULL,
  m INTEGER NOT NULL,
  position INTEGER NOT NULL,
  config INTEGER NOT NULL REFERENCES config (id),
  PRIMARY KEY (dispatch_table, entry, m, position),
  FOREIGN KEY (dispatch_table, entry, m)
    REFERENCES evidence (dispatch_table, entry, m)
) STRICT, WITHOUT ROWID;

-- Imported tables whose winner has beaten the default on this machine.
CREATE TABLE verification (
  dispatch_table INTEGER PRIMARY KEY REFERENCES dispatch_table (id),
  unix_us INTEGER NOT NULL
) STRICT;

CREATE TRIGGER device_class_no_update BEFORE UPDATE ON device_class
  BEGIN SELECT RAISE (ABORT, 'device_class is append-only'); END;
CREATE TRIGGER device_class_no_delete BEFORE DELETE ON device_class
  BEGIN SELECT RAISE (ABORT, 'device_class is append-only'); END;
CREATE TRIGGER device_no_update BEFORE UPDATE ON device
  BEGIN SELECT RAISE (ABORT, 'device is append-only'); END;
CREATE TRIGGER device_no_delete BEFORE DELETE ON device
  BEGIN SELECT RAISE (ABORT, 'device is append-only'); END;
CREATE TRIGGER problem_no_update BEFORE UPDATE ON problem
  BEGIN SELECT RAISE (ABORT, 'problem is append-only'); END;
CREATE TRIGGER problem_no_delete BEFORE DELETE ON problem
  BEGIN SELECT RAISE (ABORT, 'problem is append-only'); END;
CREATE TRIGGER config_no_update BEFORE UPDATE ON config
  BEGIN SELECT RAISE (ABORT, 'config is append-only'); END;
CREATE TRIGGER config_no_delete BEFORE DELETE ON config
  BEGIN SELECT RAISE (ABORT, 'config is append-only'); END;
CREATE TRIGGER protocol_no_update BEFORE UPDATE ON protocol
  BEGIN SELECT RAISE (ABORT, 'protocol is append-only'); END;
CREATE TRIGGER protocol_no_delete BEFORE DELETE ON protocol
  BEGIN SELECT RAISE (ABORT, 'protocol is append-only'); END;
CREATE TRIGGER kernel_no_update BEFORE UPDATE ON kernel
  BEGIN SELECT RAISE (ABORT, 'kernel is append-only'); END;
CREATE TRIGGER kernel_no_delete BEFORE DELETE ON kernel
  BEGIN SELECT RAISE (ABORT, 'kernel is append-only'); END;
CREATE TRIGGER trial_no_update BEFORE UPDATE ON trial
  BEGIN SELECT RAISE (ABORT, 'trial is append-only'); END;
CREATE TRIGGER trial_no_delete BEFORE DELETE ON trial
  BEGIN SELECT RAISE (ABORT, 'trial is append-only'); END;
CREATE TRIGGER revision_no_update BEFORE UPDATE ON revision
  BEGIN SELECT RAISE (ABORT, 'revision is append-only'); END;
CREATE TRIGGER revision_no_delete BEFORE DELETE ON revision
  BEGIN SELECT RAISE (ABORT, 'revision is append-only'); END;
CREATE TRIGGER dispatch_table_no_update BEFORE UPDATE ON dispatch_table
  BEGIN SELECT RAISE (ABORT, 'dispatch_table is append-only'); END;
CREATE TRIGGER dispatch_table_no_delete BEFORE DELETE ON dispatch_table
  BEGIN SELECT RAISE (ABORT, 'dispatch_table is append-only'); END;
CREATE TRIGGER table_entry_no_update BEFORE UPDATE ON table_entry
  BEGIN SELECT RAISE (ABORT, 'table_entry is append-only'); END;
CREATE TRIGGER table_entry_no_delete BEFORE DELETE ON table_entry
  BEGIN SELECT RAISE (ABORT, 'table_entry is append-only'); END;
CREATE TRIGGER evidence_no_update BEFORE UPDATE ON evidence
  BEGIN SELECT RAISE (ABORT, 'evidence is append-only'); END;
CREATE TRIGGER evidence_no_delete BEFORE DELETE ON evidence
  BEGIN SELECT RAISE (ABORT, 'evidence is append-only'); END;
CREATE TRIGGER evidence_tie_no_update BEFORE UPDATE ON evidence_tie
  BEGIN SELECT RAISE (ABORT, 'evidence_tie is append-only'); END;
CREATE TRIGGER evidence_tie_no_delete BEFORE DELETE ON evidence_tie
  BEGIN SELECT RAISE (ABORT, 'evidence_tie is append-only'); END;
CREATE TRIGGER verification_no_update BEFORE UPDATE ON verification
  BEGIN SELECT RAISE (ABORT, 'verification is append-only'); END;
CREATE TRIGGER verification_no_delete BEFORE DELETE ON verification
  BEGIN SELECT RAISE (ABORT, 'verification is append-only'); END;
