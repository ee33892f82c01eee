"""Scripts that replace spark-submit or a job."""

#: The beginning of a script that replaces spark-submit: ``end`` puts the job's outcome.
PRELUDE = """
import json, os, sys, time
def end(line):
    options = dict(word[2:].split("=", 1) for word in sys.argv if word.startswith("--job-"))
    os.makedirs(options["job-folder"], exist_ok=True)
    path = os.path.join(options["job-folder"], options["job-name"] + ".outcome.json")
    open(path, "w").write(json.dumps({"job": "compact"} | line))
"""
