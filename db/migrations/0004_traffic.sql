-- Where GEMMs are called, and lookups that no fresh table answered. Counts, not
-- evidence: they decay (tuner/traffic.h), so each stands with the time it is as
-- of, and the lightest are dropped when there are too many. Problems and devices
-- stand here as text, since the shared rows of those are never dropped.

CREATE TABLE traffic (
  id INTEGER PRIMARY KEY,
  problem TEXT NOT NULL,                -- canonical text
  class_hash TEXT NOT NULL,             -- DeviceSpec::ClassHash()
  device TEXT NOT NULL,                 -- the last named; a line of bundles
  misses REAL NOT NULL,                 -- as of missed_us
  missed_us INTEGER NOT NULL,           -- the last one; 0: never
  reported_us INTEGER NOT NULL,         -- the last report; 0: never
  UNIQUE (problem, class_hash)
) STRICT;

CREATE TABLE traffic_calls (
  traffic INTEGER NOT NULL REFERENCES traffic (id) ON DELETE CASCADE,
  m INTEGER NOT NULL,
  weight REAL NOT NULL,                 -- as of unix_us
  unix_us INTEGER NOT NULL,
  PRIMARY KEY (traffic, m)
) STRICT, WITHOUT ROWID;

-- Reports that were counted, for as long as they may be sent again.
CREATE TABLE traffic_report (
  id INTEGER PRIMARY KEY,               -- in the order taken
  report_id TEXT NOT NULL UNIQUE,
  content TEXT NOT NULL,                -- SHA-256 of what it said
  unix_us INTEGER NOT NULL
) STRICT;
CREATE INDEX traffic_report_by_time ON traffic_report (unix_us);
