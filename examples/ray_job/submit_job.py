"""Run `holdfast submit` as the entrypoint of a Ray job.

    pip install "holdfast[jobs]"                              # here; the cluster's nodes need holdfast itself
    export HOLDFAST_REDIS_URL=redis://redis.internal:6379/0   # as the cluster sees it
    export OPENAI_API_KEY=...
    python submit_job.py http://127.0.0.1:8265                # the cluster's dashboard

It prints the job's log and ends with the job's exit code: 0 if all conversations are idle, 1 if some failed, else 5 if some
await a person. These outlive the job: decide them with `holdfast pending` and `holdfast resolve`, and submit the same file
again to send what is left of it.

The folder is shipped as the job's working directory, which suits a cluster of one node and a try; the job publishes the app
from there (`HOLDFAST_PUBLISH`). Where conversations go on for days on many nodes, install the app in the nodes' image, publish
it with `holdfast up --app`, and give its import path instead: workers are made long after the job is over, and must find the
app where they are. There, set the keys in the image's environment too: the environment that a job is given is readable on the
dashboard.
"""

import asyncio
import os
import sys
from pathlib import Path

from ray.job_submission import JobSubmissionClient

FOLDER = Path(__file__).parent
PASSED_ON = ("HOLDFAST_REDIS_URL", "HOLDFAST_NAMESPACE", "OPENAI_API_KEY", "OPENAI_API_BASE")


async def main(dashboard: str) -> int:
    client = JobSubmissionClient(dashboard)
    job_id = client.submit_job(
        entrypoint="holdfast submit conversations.jsonl --app app:app --ray-address auto",
        runtime_env={
            "working_dir": str(FOLDER),
            "env_vars": {"HOLDFAST_PUBLISH": "true"} | {name: os.environ[name] for name in PASSED_ON if name in os.environ},
        },
    )
    async for lines in client.tail_job_logs(job_id):
        print(lines, end="", flush=True)
    exit_code = client.get_job_info(job_id).driver_exit_code
    return 1 if exit_code is None else exit_code


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
