"""/v1/chat/completions through the real client."""

import openai
import pytest
import requests

MESSAGES = [{"role": "user", "content": "Tell me about foxes"}]


def chat(client, **arguments):
    return client.chat.completions.create(
        **{"model": "tiny", "messages": MESSAGES, "max_completion_tokens": 12, "temperature": 0, **arguments})


def test_plain_answer(client):
    answer = chat(client)
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    message = answer.choices[0].message
    assert message.role == "assistant" and isinstance(message.content, str)
    assert answer.choices[0].finish_reason in ("stop", "length")


def test_stream_equals_plain(client):
    plain = chat(client, extra_body={"ignore_eos": True})
    chunks = list(chat(client, stream=True, extra_body={"ignore_eos": True}))
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content == ""
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == plain.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices[0].finish_reason == "length"


def test_continuous_usage(client):
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True}))
    counts = [chunk.usage.completion_tokens for chunk in chunks]
    assert counts == sorted(counts) and counts[0] == 0 and chunks[-1].choices == []


def test_logprobs(client):
    content = chat(client, logprobs=True, top_logprobs=2, max_completion_tokens=4).choices[0].logprobs.content
    assert content and all(len(entry.top_logprobs) == 2 for entry in content)
    assert all(entry.logprob == entry.top_logprobs[0].logprob for entry in content)


def test_chat_08_parts_are_text(client):
    parts = [{"role": "user", "content": [{"type": "text", "text": MESSAGES[0]["content"]}]}]
    assert chat(client, messages=parts).usage.prompt_tokens == chat(client).usage.prompt_tokens
    assert chat(client, messages=parts).choices[0].message.content == chat(client).choices[0].message.content


def test_chat_10_one_bos(server):
    answer = requests.post(server.url + "/tokenize", json={"messages": MESSAGES}, timeout=10).json()
    plain = requests.post(server.url + "/tokenize", json={"prompt": ""}, timeout=10).json()["tokens"]
    bos = plain[:1]  # what the tokenizer adds to nothing, if it adds anything
    assert not bos or answer["tokens"].count(bos[0]) == 1


def test_chat_12_continue_final_message(server):
    messages = MESSAGES + [{"role": "assistant", "content": "An apple a day, keeps"}]
    body = {"messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    ids = requests.post(server.url + "/tokenize", json=body, timeout=10).json()["tokens"]
    text = requests.post(server.url + "/detokenize", json={"tokens": ids}, timeout=10).json()["prompt"]
    assert text.endswith("keeps")


def test_unbuilt_fields_are_refused_by_name(client):
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    for field, value in {"tools": [tool], "response_format": {"type": "json_object"}}.items():
        with pytest.raises(openai.BadRequestError) as error:
            chat(client, **{field: value})
        assert error.value.param == field
