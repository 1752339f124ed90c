"""A real S3 server on 127.0.0.1 for the session, and a bucket of its own for each test."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer

from tests.remote.objects import Bucket, forget_clients

KEY, SECRET = "AKIACANARYKEY", "canary-secret-of-the-store"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Its URL, in the environment where clients look for it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    before = dict(os.environ)
    os.environ |= {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    forget_clients()
    yield url
    forget_clients()
    os.environ.clear()
    os.environ.update(before)
    server.stop()


@pytest.fixture
def bucket(s3_server: str) -> Bucket:
    """An empty bucket."""
    del s3_server
    return Bucket.made(f"lg-{uuid.uuid4().hex[:12]}")
