"""redis-py over TLS: with a certificate and without one, a large value both ways, a pipeline, a subscriber, another certificate."""

import os
import pathlib
import socket
import subprocess
import tempfile

import redis

plain = redis.Redis(port=int(os.environ["INDELIBLE_PORT"]))
certificates = pathlib.Path(__file__).parent.parent / "certificates"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def refused(client):
    try:
        client.ping()
    except (redis.ConnectionError, ConnectionError):
        return True
    return False


with tempfile.TemporaryDirectory() as place:
    subprocess.run([certificates, place], check=True)
    path = lambda name: os.path.join(place, name)
    port = free_port()
    plain.config_set(
        "tls-port", port, "tls-cert-file", path("server.crt"), "tls-key-file", path("server.key"), "tls-ca-cert-file", path("ca.crt")
    )

    def connect(**more):
        return redis.Redis(port=port, ssl=True, ssl_ca_certs=path("ca.crt"), **more)

    with_certificate = {"ssl_certfile": path("alice.crt"), "ssl_keyfile": path("alice.key")}
    client = connect(single_connection_client=True, **with_certificate)
    assert client.ping()
    value = os.urandom(5_000_000)
    assert client.set("large", value) and client.get("large") == value
    pipeline = client.pipeline()
    for number in range(5000):
        pipeline.rpush("list", number)
    assert pipeline.execute() == list(range(1, 5001))
    subscriber = client.pubsub(ignore_subscribe_messages=True)
    subscriber.subscribe("news")
    subscriber.get_message(timeout=5)
    assert plain.publish("news", "said in plain") == 1
    assert subscriber.get_message(timeout=5)["data"] == b"said in plain"

    assert refused(connect()), "without a certificate"
    plain.config_set("tls-auth-clients", "optional")
    assert connect().ping()
    plain.config_set("tls-auth-clients", "no")
    assert connect().ping()

    # Another authority, and certificates of it: what is connected stays so.
    with tempfile.TemporaryDirectory() as other:
        subprocess.run([certificates, other], check=True)
        names = {"tls-cert-file": "server.crt", "tls-key-file": "server.key", "tls-ca-cert-file": "ca.crt"}
        plain.config_set(*(word for name, file in names.items() for word in (name, os.path.join(other, file))))
        assert client.ping()
        assert refused(connect()), "the server's certificate is of another authority now"
        assert redis.Redis(port=port, ssl=True, ssl_ca_certs=os.path.join(other, "ca.crt")).ping()

print(f"tls-redis-py: redis-py {redis.__version__}, all as it should be")
