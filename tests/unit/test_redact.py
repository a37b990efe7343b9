"""Secrets leave before anything is stored; facts stay."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_host import corpus_host

from recon.agent.connectors.redact import redact, redact_text

HF = b"hf_" + b"aB3" * 12
SK = b"sk-test-" + b"0" * 24


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"token " + HF + b" end", b"token *** end"),
        (b"key=" + SK, b"key=***"),
        (b"ghp_" + b"a1" * 18, b"***"),
        (b"Authorization: Bearer abc.def-123", b"Authorization: Bearer ***"),
        (b'-H "authorization: Basic dXNlcjpwYXNz"', b'-H "authorization: Basic ***"'),
        (b"serve --api-key short --port 30000", b"serve --api-key *** --port 30000"),
        (b"serve --api-key=short --port 30000", b"serve --api-key=*** --port 30000"),
        (b"python\0-m\0x\0--api-key\0a secret\0--tp\x008\0", b"python\0-m\0x\0--api-key\0***\0--tp\x008\0"),
        (b"python\0--hf-token=a b\0--tp\0", b"python\0--hf-token=***\0--tp\0"),
        (b'["--admin-api-key", "x y", "--tp"]', b'["--admin-api-key", "***", "--tp"]'),
        (b"--ssl-keyfile-password 'a b' --ssl-keyfile /k", b"--ssl-keyfile-password '***' --ssl-keyfile /k"),
        (
            b"Environment=CUDA_VISIBLE_DEVICES=0,1 HF_TOKEN=x1y2 NCCL_DEBUG=INFO",
            b"Environment=CUDA_VISIBLE_DEVICES=0,1 HF_TOKEN=*** NCCL_DEBUG=INFO",
        ),
        (b'Environment="DB_PASSWORD=two words" A=1', b'Environment="DB_PASSWORD=***" A=1'),
        (b"A=1\nMY_SECRET=two words\nB=2\n", b"A=1\nMY_SECRET=***\nB=2\n"),
        (b"A=1\0HF_TOKEN=two words\0B=2\0", b"A=1\0HF_TOKEN=***\0B=2\0"),
        (b"ServerArgs(api_key='x', admin_api_key=None, tp_size=8)", b"ServerArgs(api_key='***', admin_api_key=None, tp_size=8)"),
        (b'{"api_key": "v", "n": 1, "auth_token": "w"}', b'{"api_key": "***", "n": 1, "auth_token": "***"}'),
        (b'"{\\"password\\": \\"v\\", \\"n\\": 1}"', b'"{\\"password\\": \\"***\\", \\"n\\": 1}"'),
        (b'"Env": ["HF_TOKEN=v w", "PATH=/bin"]', b'"Env": ["HF_TOKEN=***", "PATH=/bin"]'),
        (b"api_key: abc\nport: 1\n", b"api_key: ***\nport: 1\n"),
        (b"https://user:pa:ss@host/x", b"https://user:***@host/x"),
        (b"postgres://u:p@h/db?sslmode=on", b"postgres://u:***@h/db?sslmode=on"),
        (
            b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\nBBBB\n-----END OPENSSH PRIVATE KEY-----\nx",
            b"-----BEGIN OPENSSH PRIVATE KEY-----\n***\n***\n-----END OPENSSH PRIVATE KEY-----\nx",
        ),
        (b"-----BEGIN RSA PRIVATE KEY-----\nAAAA", b"-----BEGIN RSA PRIVATE KEY-----\n***"),
    ],
)  # fmt: skip
def test_a_secret_is_replaced_and_what_stands_around_it_stays(before: bytes, after: bytes) -> None:
    assert redact(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "Environment=CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NCCL_P2P_DISABLE=1",
        "the token usage is 0.23; each token needs 3850 bytes; secrets of the trade",
        "max_total_tokens=163840 prompt_tokens=12, num_tokens: 5, max_new_tokens='16'",
        '{"bos_token": "<s>", "eos_token": "<|end|>", "pad_token_id": 2, "tokenizer_class": "X", "private": false}',
        "PrivateTmp=yes\nPrivateDevices=no\nPrivateNetwork=disconnected\nLimitMEMLOCK=8388608\nNoNewPrivileges=no",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "--tokenizer-path /root/models/x --skip-tokenizer-init --max-total-tokens 1000 --trust-remote-code",
        "--ssl-keyfile /etc/k.txt --api-key-file /run/key --tool-call-parser kimi",
        "bearer authentication is described below; see https://example.org/a:b@c",
        "model.embed_tokens.weight task-abcdefghijklmnopqrstuvwxyz disk-by-uuid-0123456789abcdef",
        "TOKENIZERS_PARALLELISM=false HF_HOME=/data/hf SGLANG_ENABLE_TOKENS=1 api_key=None",
        "git@github.com:org/repo.git https://user@host/path ssh://git@host:22/x",
        "e28e4f6c-1d53-4b6e-9a94-1f8e5c1a2b3c GPU-cfc93c9a-6227-7888-f45b-8714eac8c51e",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text


@given(
    st.binary(max_size=400)
    | st.text(alphabet="hf_sk-TOKEN=api_key\"'\\\0\n :@/{}*<1aB", max_size=200).map(str.encode)
)
def test_redacting_twice_changes_nothing_and_the_structure_stays(data: bytes) -> None:
    once = redact(data)
    assert redact(once) == once
    assert once.count(b"\n") == data.count(b"\n")
    assert once.count(b"\0") == data.count(b"\0")


HOSTILE = {
    "one word": b"a" * (1 << 20),
    "flags": b"--api-key " * 100_000,
    "dashes": b"-" * (1 << 20),
    "names": b"TOKEN=" * 170_000,
    "special tokens": b"TOKEN=<" * 150_000,
    "commas": (b"TOKEN=" + b"," * 90) * 10_000,
    "quotes": b'TOKEN="' * 150_000,
    "escapes": b'TOKEN="\\"' * 110_000,
    "items": b'"token":"' * 110_000,
    "escaped items": b'\\"token\\":\\"' * 90_000,
    "urls": b"://" * 350_000,
    "url users": b"://a:b" * 170_000,
    "urls of colons": (b"://" + b"a" * 250 + b":" + b"b" * 500) * 1_400,
    "keys": b"-----BEGIN PRIVATE KEY-----" * 38_000,
    "bearers": b"bearer " * 150_000,
    "authorization": b"authorization: " * 70_000,
    "json web tokens": b"eyJaaaaaaaaa." * 80_000,
    "yaml": b"api_key: x y\n" * 80_000,
    "blanks": b"--api-key" + b" " * (1 << 20),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_megabyte_takes_linear_time(name: str) -> None:
    data = HOSTILE[name]
    took = []
    for part in (data[: len(data) // 4], data):
        begun = time.process_time()
        redact(part)
        took.append(time.process_time() - begun)
    # four times the input: four times the time, with room for a busy machine; quadratic would be sixteen times
    assert took[1] < 0.25 or took[1] < 9 * took[0], took
    assert took[1] < 4.0, took


def test_the_planted_secrets_of_the_recorded_host_vanish() -> None:
    folder = corpus_host("ct200")
    facts = json.loads((folder / "facts.json").read_text())["files"]
    secrets = [s for row in facts.values() for s in (row.get("expected") or {}).get("secrets_to_redact", [])]
    assert len(secrets) == 2
    touched = []
    for path in sorted(p for p in folder.iterdir() if p.name not in ("facts.json", "expected-summary.json")):
        before = path.read_bytes()
        after = redact(before)
        assert not any(s.encode() in after for s in secrets), path.name
        assert (after.count(b"\n"), after.count(b"\0")) == (before.count(b"\n"), before.count(b"\0")), (
            path.name
        )
        touched += [path.name] if after != before else []
    assert touched == ["proc-41732-cmdline.bin", "systemctl-show.txt"]  # nothing else was taken for a secret


@pytest.mark.parametrize("kind", ["hosts", "models", "logs"])
def test_the_corpus_comes_through_with_nothing_lost(kind: str) -> None:
    root = corpus_host("ct200").parents[1] / kind
    changed: list[str] = []
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.stat().st_size < (4 << 20)):
        before = path.read_bytes()
        for one, other in zip(before.splitlines(), redact(before).splitlines(), strict=True):
            if one != other:
                changed.append(f"{path.relative_to(root)}: {one[:120]!r} -> {other[:120]!r}")
    unexpected = [c for c in changed if not c.startswith("ct200/") and "api" not in c.lower()]
    assert unexpected == [], "\n".join(unexpected)


def test_text_with_lone_surrogates_survives(tmp_path: Path) -> None:
    assert redact_text("a\udce9 HF_TOKEN=x9") == "a\udce9 HF_TOKEN=***"
