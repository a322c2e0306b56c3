"""The service of one machine: who may serve from a folder, and on which port."""

from __future__ import annotations

import socket

import pytest

from governance.local.service import HOST, Interrupted, Service, ServiceFailed, free_port


def serving_from(folder, port):
    worker_source = folder / "worker"
    return Service(folder=folder, source=folder, worker_source=worker_source, port=port)


@pytest.fixture
def service(tmp_path):
    return serving_from(tmp_path, free_port())


def test_one_serves_from_a_folder_at_a_time(service, tmp_path):
    service.take_folder()
    with pytest.raises(ServiceFailed, match="already runs from the data folder"):
        serving_from(tmp_path, 1).take_folder()


def test_a_port_that_somebody_listens_on_is_refused(service):
    service.check_port()
    with socket.create_server((HOST, service.port)):
        with pytest.raises(ServiceFailed, match=f"Port {service.port} cannot be used"):
            service.check_port()


def test_a_wait_ends_when_it_is_time_to_stop(service):
    assert service.wait(0) == []
    service._stopping.set()
    with pytest.raises(Interrupted):
        service.wait(60)


def test_a_worker_keeps_its_journal_below_the_data_folder(service, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(service, "start", lambda name, *arguments: started.append(arguments))
    service.start_worker("w", agent="hermes", token_file=tmp_path / "t", options=["--", "x"])
    [arguments] = started
    assert arguments[arguments.index("--data") + 1] == str(tmp_path / "workers" / "w")
    assert arguments[-2:] == ("--", "x")


def test_the_worker_of_the_checkout_is_found_first(service, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    path = service._environment()["PYTHONPATH"]
    assert path.split(":") == [str(tmp_path / "worker"), "/elsewhere"]
