-- Times for bounds of regret are of one device in one state: the index of
-- 0003_rechecks.sql by device instead of by class.
DROP INDEX trial_times;
CREATE INDEX trial_times
  ON trial (problem, device, protocol, m, config, median_ns)
  WHERE outcome = 'measured';
