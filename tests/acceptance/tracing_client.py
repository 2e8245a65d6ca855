"""Eval Protocol's own logger, OpenAI's own client and Eval Protocol's own reader against a trace gateway."""

import asyncio
import logging
import os

import aiohttp
import openai
from eval_protocol.adapters.fireworks_tracing import FireworksTracingAdapter
from eval_protocol.log_utils.fireworks_tracing_http_handler import FireworksTracingHttpHandler
from eval_protocol.models import Status

URL, KEY = os.environ["FW_TRACING_GATEWAY_BASE_URL"], os.environ["FIREWORKS_API_KEY"]
PATH = "/rollout_id/r1/invocation_id/i/experiment_id/e/run_id/r/row_id/7"


async def status(adapter):
    async with aiohttp.ClientSession() as session:
        return (await adapter.async_get_status(session, rollout_id="r1"))["status"]


def main():
    adapter = FireworksTracingAdapter(base_url=URL, api_key=KEY)
    logger = logging.getLogger("worker")
    logger.setLevel(logging.INFO)
    logger.addHandler(FireworksTracingHttpHandler())
    assert asyncio.run(status(adapter)) is None
    extra = {"rollout_id": "r1", "experiment_id": "e", "run_id": "r"}
    logger.info("begins", extra=extra | {"status": Status.rollout_running()})
    assert asyncio.run(status(adapter)) == {"code": 101}

    client = openai.OpenAI(base_url=URL + PATH, api_key=KEY, max_retries=0)
    question = [{"role": "user", "content": "hello"}]
    answer = client.chat.completions.create(model="mock-model", messages=question)
    assert answer.choices[0].message.content == "hello"
    talk = question + [{"role": "assistant", "content": "hello"}, {"role": "user", "content": "and again"}]
    pieces = client.chat.completions.create(model="mock-model", messages=talk, stream=True)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == "and again"
    try:
        client.chat.completions.create(model="another", messages=question)
    except openai.PermissionDeniedError as error:
        assert "does not allow the model" in str(error)
    else:
        raise AssertionError("another model was called")

    logger.error("it broke", extra=extra | {"status": Status.rollout_internal_error("it broke"), "extras": {"turns": 2}})
    assert asyncio.run(status(adapter)) == {"code": 13}
    entries = adapter.search_logs(tags=["rollout_id:r1"])
    assert [entry["status"]["code"] for entry in entries] == [13, 101], entries
    assert entries[0]["status"]["message"] == "it broke" and entries[0]["extras"]["turns"] == 2, entries
    assert entries[0]["severity"] == "ERROR", entries

    rows = adapter.get_evaluation_rows(tags=["rollout_id:r1"])
    assert sorted(len(row.messages) for row in rows) == [2, 4], rows
    metadata = rows[0].execution_metadata
    ids = (metadata.rollout_id, metadata.invocation_id, metadata.experiment_id, metadata.run_id)
    assert ids == ("r1", "i", "e", "r") and rows[0].input_metadata.row_id == "7", metadata
    assert adapter.get_evaluation_rows(tags=["rollout_id:another"]) == []
    print("all as expected")


main()
