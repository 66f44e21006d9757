"""A store is a log: with its propensities, in the form that ``read`` and ``fit`` take."""

import subprocess
import sys

import numpy as np
import pytest

import rewardmix as rm
from rewardmix import logs
from rewardmix._core.errors import InputError
from rewardmix.logs.log import load_partition
from rewardmix.service import export_log
from rewardmix.service.request_schema import StartSession, StepFeedback

pytest.importorskip("pyarrow", reason="needs rewardmix[logs]")


def visit(service, states, rewards):
    """Play a session through the service; [(state, action, reward, propensity)]."""
    answer, rows = service.start_session(StartSession(states[0], None)).result().body, []
    for step, reward in enumerate(rewards):
        after = states[step + 1] if step + 1 < len(states) else None
        rows.append((states[step], answer["action"], reward, answer["propensity"]))
        answer = service.add_step(answer["session"], StepFeedback(step, reward, after)).result().body
    return rows


def test_a_log_has_what_was_decided_and_earned(make_service, store, tmp_path, plan):
    import pyarrow.parquet as parquet

    service = make_service(explore_prob=0.5, holdout_share=0.3)
    rng = np.random.default_rng(0)
    names, expected = plan.model.state_names, []
    for _ in range(20):
        length = int(rng.integers(1, 7))
        states = [names[s] for s in rng.integers(3, size=length)]
        expected += visit(service, states, rng.integers(2, size=length).astype(float).tolist())
    service.start_session(StartSession("home", None)).result()  # nothing earned yet: no row
    done = export_log(store.address, tmp_path / "log.parquet")
    assert (done.num_sessions, done.num_rows, done.num_dropped_rows) == (20, len(expected), 0)
    table = parquet.read_table(tmp_path / "log.parquet").to_pydict()
    columns = [table[name] for name in ("state", "action", "reward", "propensity")]
    assert list(zip(*columns, strict=True)) == expected
    assert set(table["version"]) == {1}
    assert set(table["arm"]) == {"adaptive", "holdout"}
    log = logs.read_log(str(tmp_path / "log.parquet"))
    assert log.read_report.num_rows == len(expected)
    probs = [prob for piece in log.partitions for prob in load_partition(piece).stored_propensities]
    assert probs == [row[3] for row in expected]
    assert log.schema.state_names == names
    assert log.schema.action_names == plan.model.action_names


def test_a_session_is_left_out_from_an_unknown_state_on(make_service, store, tmp_path):
    service = make_service()
    visit(service, ["home", "list", "nowhere", "item"], [1.0, 0.0, 1.0, 1.0])
    visit(service, ["nowhere", "home"], [1.0, 1.0])
    done = export_log(store.address, tmp_path / "log.parquet", drop_invalid=1.0)
    assert (done.num_sessions, done.num_rows, done.num_dropped_rows) == (1, 2, 4)
    assert logs.read_log(str(tmp_path / "log.parquet")).read_report.num_rows == 2


def test_nothing_to_export_is_said(make_service, store, tmp_path):
    make_service().start_session(StartSession("home", None)).result()
    with pytest.raises(InputError, match="no session with a reward"):
        export_log(store.address, tmp_path / "log.parquet")
    with pytest.raises(InputError, match="a store of rewardmix serve"):
        export_log(tmp_path / "nothing", tmp_path / "log.parquet")


def test_commands_read_a_store(make_service, store, tmp_path, plan):
    import pyarrow.parquet as parquet

    sessions = []
    service = make_service(explore_prob=1.0)
    model, rng = plan.model, np.random.default_rng(1)
    for _ in range(200):
        type_index, state = rng.choice(2, p=model.weights), int(rng.choice(3, p=model.initial))
        answer = service.start_session(StartSession(state, None)).result().body
        sessions.append(answer["session"])
        for step in range(4):
            reward = float(rng.random() < model.rewards[type_index, state, answer["action"]])
            state = int(rng.choice(3, p=model.transition[state, answer["action"]]))
            response = StepFeedback(step, reward, state if step < 3 else None)
            answer = service.add_step(answer["session"], response).result().body
    command = [sys.executable, "-m", "rewardmix", "fit", str(store.address), "--num-resamples", "2", "--out", "run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "200 episodes, 800 rows" in done.stdout
    checked = [sys.executable, "-m", "rewardmix", "diagnose", str(store.address), "--num-types", "2"]
    done = subprocess.run(checked, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "200 episodes, 800 rows; 3 states, 3 actions" in done.stdout
    fitted = rm.load(tmp_path / "run" / "policy.safetensors")
    assert fitted.model.state_names == model.state_names
    assert fitted.model.horizon == 4
    types = [sys.executable, "-m", "rewardmix", "infer-types", "run", str(store.address), "--out", "types.parquet"]
    done = subprocess.run(types, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "200 episodes in types.parquet" in done.stdout
    table = parquet.read_table(tmp_path / "types.parquet")
    export_log(store.address, tmp_path / "log.parquet")
    assert table.equals(logs.infer_types(fitted.model, tmp_path / "log.parquet"))
    assert set(table["episode"].to_pylist()) == set(sessions)


def test_the_command_writes_the_same_log_and_is_refused_by_name(make_service, store, tmp_path):
    from typer.testing import CliRunner

    from rewardmix.cli.app import app

    service = make_service()
    for reward in (0.0, 1.0):
        session = service.start_session(StartSession("home", None)).result().body["session"]
        service.add_step(session, StepFeedback(0, reward, None)).result()
    paths = tmp_path / "one.parquet", tmp_path / "two.parquet"
    done = CliRunner().invoke(app, ["export", store.address, "--format", "parquet", "--out", str(paths[0])])
    assert done.exit_code == 0
    assert done.output.startswith(f"2 sessions with 2 steps\nsaved: {paths[0]} (")
    export_log(store.address, paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    for arguments, text in (
        ([store.address], r"--out: got nothing, expected a .*file"),
        ([str(paths[0]), "--out", str(paths[1])], "expected a store of rewardmix serve"),
    ):
        with pytest.raises(InputError, match=text):
            CliRunner().invoke(app, ["export", *arguments, "--format", "parquet"], catch_exceptions=False)
