"""Metrics, dashboards and alerts against a real honed and a real Prometheus.

  metrics_test.py BIN_FOLDER SOURCE_FOLDER

honed serves a modelled H200, tunes a small layer and answers lookups. promtool
checks its page, the rules and the rules' tests; a Prometheus of this test's own
scrapes it, and every query of the dashboards and the rules is asked of that.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

BIN, SOURCE = sys.argv[1:3]
RULES = os.path.join(SOURCE, "dashboards/alerts/hone.rules.yml")
RULE_TESTS = os.path.join(SOURCE, "tests/dashboards/hone.rules.test.yml")
BOARDS = [os.path.join(SOURCE, "dashboards/grafana", name)
          for name in ("hone-service.json", "hone-sweeps.json")]
LAYER = ["--n=512", "--k=512", "--b=int4", "--group=128"]
# What only a GPU has. A modelled device's page must not have them.
GPU = re.compile(r"hone_gpu_")
METRIC = re.compile(r"\b(?:hone|process)_[a-z0-9_]+\b")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def get(url, **query):
    if query:
        url += "?" + urllib.parse.urlencode(query)
    with urllib.request.urlopen(url, timeout=10) as reply:
        return reply.read().decode()


def promtool(*args, text=None):
    return subprocess.run(["promtool", *args], input=text, capture_output=True,
                          text=True, check=False)


def wait(what, ready, seconds=30):
    end = time.time() + seconds
    while time.time() < end:
        try:
            value = ready()
        except OSError:
            value = None
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"{what} within {seconds} s")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def families(expression):
    """The metric families that a query names."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) if "_seconds_" in name
            else name for name in METRIC.findall(expression)}


def board_queries():
    for path in BOARDS:
        for panel in json.loads(read(path))["panels"]:
            for target in panel.get("targets", []):
                yield panel["title"], target["expr"]


class MetricsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="hone-metrics-")
        cls.processes = []
        cls.log = os.path.join(cls.folder, "honed.log")
        cls.socket = os.path.join(cls.folder, "honed.sock")
        cls.start("honed.log", [
            f"{BIN}/honed", "--device=model:h200", f"--listen={cls.socket}",
            "--http=127.0.0.1:0", f"--db={cls.folder}/hone.db",
            f"--cache={cls.folder}/cache"])
        served = wait("honed serves", lambda: re.search(
            r'"event":"serving".*"http":"([^"]+)"|"http":"([^"]+)".*"event":"serving"',
            read(cls.log)))
        cls.honed = served.group(1) or served.group(2)
        cls.prometheus = f"127.0.0.1:{free_port()}"
        with open(os.path.join(cls.folder, "prometheus.yml"), "w",
                  encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "500ms",
                                  "scrape_timeout": "500ms",
                                  "evaluation_interval": "1s"},
                       "rule_files": [RULES],
                       "scrape_configs": [{
                           "job_name": "hone",
                           "static_configs": [{"targets": [cls.honed]}]}]},
                      file)
        cls.start("prometheus.log", [
            "prometheus", f"--config.file={cls.folder}/prometheus.yml",
            f"--storage.tsdb.path={cls.folder}/data",
            f"--web.listen-address={cls.prometheus}", "--log.level=warn"])
        wait("Prometheus scrapes", lambda: cls.ask("hone_build_info"))
        # A caller's mistake, a tune and lookups, and a layer that nobody tuned.
        cls.hone("tune", "--cancel=no-such-tune", fails=True)
        cls.hone("tune", *LAYER, "--ladder=1,16", "--max-kernels=3")
        cls.hone("bench", *LAYER, "--m=1,3,16", "--count=300")
        cls.hone("get", "--n=64", "--k=65536", "--b=int8", "--m=1")
        time.sleep(1.2)
        cls.page = get(f"http://{cls.honed}/metrics")

    @classmethod
    def tearDownClass(cls):
        for process in reversed(cls.processes):
            process.kill()
            process.wait()
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def start(cls, log, command):
        with open(os.path.join(cls.folder, log), "wb") as file:
            cls.processes.append(subprocess.Popen(
                command, stdout=file, stderr=file, cwd=cls.folder))

    @classmethod
    def hone(cls, *args, fails=False):
        done = subprocess.run([f"{BIN}/hone", *args, f"--address={cls.socket}"],
                              capture_output=True, text=True, check=False)
        assert (done.returncode != 0) == fails, done.stderr + done.stdout

    @classmethod
    def ask(cls, expression):
        reply = json.loads(get(f"http://{cls.prometheus}/api/v1/query",
                               query=expression))
        return reply["data"]["result"]

    def names(self):
        return set(re.findall(r"^# TYPE (\S+)", self.page, re.M))

    def test_promtool_finds_nothing_wrong_with_the_page(self):
        done = promtool("check", "metrics", text=self.page)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_the_page_has_what_happened_and_no_layer(self):
        for line in ('hone_lookups_total{match="exact"} ',
                     'hone_lookups_total{match="heuristic"} 1',
                     'hone_tunes_total{kind="tune",state="succeeded"} 1',
                     'hone_rpcs_total{method="hone.v1.TuningService/CancelTune"'
                     ',code="NOT_FOUND"} 1',
                     'hone_tables{freshness="fresh",verified="true"} 1',
                     'hone_device_info{name="NVIDIA H200 (MODELLED)"'):
            self.assertIn("\n" + line, self.page)
        for name in ("hone_cubin_cache_misses_total",
                     'hone_trials_total{outcome="measured"}',
                     'hone_lookups_total{match="exact"}',
                     "process_resident_memory_bytes"):
            value = re.search(f"^{re.escape(name)} (.+)$", self.page, re.M)
            self.assertGreater(float(value.group(1)), 0, name)
        for word in ("512", "int4", "65536"):
            self.assertNotRegex(self.page, rf'="[^"]*{word}')
        self.assertNotRegex(self.page, "[0-9a-f]{32}")
        self.assertNotRegex(self.page, GPU)

    def test_every_query_of_the_dashboards_has_data(self):
        names = self.names()
        source = read(os.path.join(SOURCE, "service/metrics/metrics_page.cc"))
        asked = 0
        for title, expression in board_queries():
            for variable, value in (("$instance", ".*"),
                                    ("$__rate_interval", "1m"),
                                    ("$__range", "1m")):
                expression = expression.replace(variable, value)
            with self.subTest(panel=title, query=expression):
                self.assertNotIn("$", expression)
                result = self.ask(expression)
                unknown = families(expression) - names
                for name in unknown:
                    self.assertRegex(name, GPU)
                    self.assertIn(f'"{name}"', source)
                if not unknown:
                    self.assertTrue(result)
                    asked += 1
        self.assertGreater(asked, 40)

    def test_every_metric_is_on_a_dashboard_or_in_a_rule(self):
        used = families(" ".join(query for _, query in board_queries()) +
                        read(RULES))
        information = {"hone_device_info", "process_virtual_memory_bytes",
                       "process_threads"}
        self.assertEqual(self.names() - used - information, set())

    def test_the_rules_are_valid_and_tested(self):
        done = promtool("check", "rules", RULES)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = promtool("test", "rules", RULE_TESTS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        alerts = re.findall(r"- alert: (\w+)", read(RULES))
        self.assertGreater(len(alerts), 10)
        tests = read(RULE_TESTS)
        for alert in alerts:
            for words in ("fires", "is silent"):
                self.assertIn(f"# {alert} {words}\n", tests)
            self.assertEqual(tests.count(f'alertname="{alert}", alertstate'), 2)

    def test_prometheus_evaluates_the_rules_over_what_is_there(self):
        names = self.names()

        def groups():
            found = json.loads(get(f"http://{self.prometheus}/api/v1/rules"))
            found = found["data"]["groups"]
            return found if all(rule["health"] != "unknown" for group in found
                                for rule in group["rules"]) else None

        for group in wait("the rules ran", groups):
            for rule in group["rules"]:
                with self.subTest(alert=rule["name"]):
                    self.assertEqual(rule["health"], "ok", rule)
                    # A honed that is well makes no noise.
                    self.assertEqual(rule["state"], "inactive", rule)
                    for name in families(rule["query"]) - names:
                        self.assertRegex(name, GPU)
                    for word in ("summary", "description", "runbook"):
                        self.assertGreater(len(rule["annotations"][word]), 20)
                    self.assertIn(rule["labels"]["severity"],
                                  ("page", "ticket"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
