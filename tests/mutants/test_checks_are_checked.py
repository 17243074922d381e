"""Mutation tests: each of these faults, put into the product, has to make its tests fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.support.postgres import ForeignServer, Server

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-p", "pytest_asyncio.plugin", "-p", "pytest_timeout")
"""Only the plugins that the tests need: the others take a second to import."""


class Mutant(msgspec.Struct, frozen=True):
    """A fault: the file, the text and its replacement, and the tests that have to fail."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


POSTGRES, SQLITE = "stores/sql/postgres", "stores/sql/sqlite"
SETTLING = "tests/stores/deliveries/test_settling.py"
CLAIMING = "tests/stores/deliveries/test_claiming.py"
STREAMS = "tests/stores/streams/test_streams.py"
SCHEDULES = "tests/stores/schedules/test_schedules.py"
PLANS = "tests/stores/schedules/test_plans.py"
AHEAD = "tests/engine/dispatch/test_ahead.py"
BEHIND = "tests/engine/dispatch/test_behind.py"
CONNECTIONS = "tests/transports/test_connections.py"
KEPT = "tests/transports/test_kept_connections.py"
ORPHANS = "tests/services/schedules/test_orphans.py"

SIMULATION = "tests/simulation/test_simulation.py"

MUTANTS = [
    Mutant(
        "a_claim_whose_answer_was_lost_is_kept",
        "engine/dispatch/claims.py",
        "            self._doubt(given)\n            raise",
        "            raise",
        (SIMULATION, "-k", "holds and 0-20"),
    ),
    Mutant(
        "outcomes_that_could_not_be_written_are_dropped",
        "engine/execution/settler.py",
        "            self._waiting[:0] = batch\n",
        "            pass\n",
        (SIMULATION, "-k", "holds and 0-20"),
    ),
    Mutant(
        "nothing_is_reclaimed",
        "engine/recovery.py",
        "held_by_dead(",
        "held_by_dead(0 * ",
        (SIMULATION, "-k", "holds and 0-20"),
    ),
    Mutant(
        "a_stop_is_taken_for_a_failure",
        "engine/execution/execution.py",
        "        except asyncio.CancelledError:\n            outcome = Released()",
        "        except asyncio.CancelledError:\n            outcome = Failed(Reason.UNKNOWN, '')",
        (SIMULATION, "-k", "holds and 0-20"),
    ),
    Mutant(
        "a_request_is_sent_again_after_an_answer_began",
        "transports/webhooks/connection.py",
        "if self._has_answered and not self._has_begun and is_at_once:",
        "if self._has_answered and is_at_once:",
        (KEPT, "-k", "after_an_answer_began"),
    ),
    Mutant(
        "a_request_is_sent_again_and_again",
        "transports/webhooks/connection.py",
        "if self._has_answered and not self._has_begun and is_at_once:",
        "if not self._has_begun and is_at_once:",
        (KEPT, "-k", "without_an_answer"),
    ),
    Mutant(
        "bytes_after_an_answer_are_the_answer_to_the_next_request",
        "transports/webhooks/answers.py",
        "        if self.is_whole:\n            self._follow()\n\n    def on_header",
        "        pass\n\n    def on_header",
        (KEPT, "-k", "more_than_an_answer"),
    ),
    Mutant(
        "any_address_is_called",
        "transports/webhooks/connections.py",
        "        passage.check(self._guard, address[0], address[1])\n",
        "",
        ("tests/transports/test_webhooks.py", "-k", "gets_no_byte and sqlite"),
    ),
    Mutant(
        "a_certificate_may_be_for_another_host",
        "transports/webhooks/connections.py",
        '    context.set_alpn_protocols(["http/1.1"])\n',
        "    context.check_hostname = False\n",
        (CONNECTIONS, "-k", "for_another_host"),
    ),
    Mutant(
        "a_host_takes_the_slots_of_others",
        "engine/execution/behind.py",
        "if not queue or self._admission.excess(target) >= 0:",
        "if not queue:",
        (BEHIND, "-k", "of_its_host_begins and sqlite"),
    ),
    Mutant(
        "what_waits_behind_a_failure_is_attempted",
        "engine/execution/delivery_runner.py",
        "for each in self.behind.take_all(target):",
        "for each in ():",
        (BEHIND, "-k", "failure_hands_back and sqlite"),
    ),
    Mutant(
        "what_waits_behind_a_host_that_hangs_is_kept",
        "engine/execution/delivery_runner.py",
        "        late = self.behind.take_late(now)\n",
        "        late = list[Claimed]()\n",
        (BEHIND, "-k", "that_hangs and sqlite"),
    ),
    Mutant(
        "a_stop_keeps_what_waits_behind",
        "engine/execution/delivery_runner.py",
        "(*self._tasks.waiting.take(self.held, which), *self.behind.take(which))",
        "self._tasks.waiting.take(self.held, which)",
        (BEHIND, "-k", "stop_hands_back and sqlite"),
    ),
    Mutant(
        "one_token_for_all_statements_of_a_claim",
        "engine/dispatch/claims.py",
        "            self._made += 1\n            given.append(token(held.worker, self._made))\n",
        "            given.append(token(held.worker, self._made or 1))\n",
        (BEHIND, "-k", "claimed_twice and sqlite"),
    ),
    Mutant(
        "a_group_that_was_not_reached_is_taken_for_empty",
        "engine/dispatch/claimable_work.py",
        "if asked_for in answered:",
        "if asked_for:",
        ("tests/engine/dispatch/test_no_standstill.py", "-k", "low_priority"),
    ),
    Mutant(
        "what_waits_behind_counts_as_running",
        "engine/targets/admission.py",
        "        self._outgoing -= many\n",
        "",
        (BEHIND, "-k", "smaller_share"),
    ),
    Mutant(
        "completing_without_a_fence",
        f"{POSTGRES}/agenda.sql",
        "where a.lane = o.lane and a.token = o.token offset 0",
        "where a.lane = o.lane offset 0",
        (SETTLING, "-k", "own_lane and postgres"),
    ),
    Mutant(
        "completing_without_a_fence_on_sqlite",
        f"{SQLITE}/agenda.sql",
        "a.token + 0 = o.",
        "a.token + 0 <> o.",
        (SETTLING, "-k", "late_worker and sqlite"),
    ),
    Mutant(
        "settling_by_lane_alone",
        f"{POSTGRES}/agenda.sql",
        "and a.lane = o.lane and a.token = o.token",
        "and a.lane = o.lane",
        (SETTLING, "-k", "late_worker and postgres"),
    ),
    Mutant(
        "the_end_of_a_run_counts_as_the_end_of_the_stream",
        f"{POSTGRES}/streams.sql",
        "where s.lane = o.lane and s.counter = o.position and a.place is not null",
        "where s.lane = o.lane and a.place is not null",
        (STREAMS, "-k", "postgres"),
    ),
    Mutant(
        "the_end_of_a_run_counts_as_the_end_of_the_stream_on_sqlite",
        f"{SQLITE}/streams.sql",
        "on s.lane = a.lane and s.counter = a.position",
        "on s.lane = a.lane",
        (STREAMS, "-k", "sqlite"),
    ),
    Mutant(
        "effect_outside_the_transaction",
        "stores/deliveries/transactions.py",
        "await _complete(self.session, ",
        "await self.connection.execute('commit; begin'); await _complete(self.session, ",
        ("tests/crash/test_kill.py", "-k", "loses_and_repeats and postgres and complete.middle"),
    ),
    Mutant(
        "nothing_is_reclaimed",
        "engine/recovery.py",
        "        if not held:\n",
        "        if True:\n",
        ("tests/crash/test_kill.py", "-k", "runs_elsewhere and postgres and five"),
    ),
    Mutant(
        "keys_are_forgotten",
        "stores/deliveries/requests.py",
        '"key": [each.key for each in requests],\n        "',
        '"key": [None for each in requests],\n        "',
        ("tests/stores/deliveries/test_accepting.py", "-k", "key and sqlite"),
    ),
    Mutant(
        "attempts_are_not_counted",
        "domain/deliveries/outcomes.py",
        "        claimed.attempt + 1,\n",
        "        claimed.attempt,\n",
        ("tests/domain/deliveries/test_outcomes.py", "-k", "alone_spends or last_failed"),
    ),
    Mutant(
        "a_repeated_request_makes_a_second_delivery",
        "surfaces/http/deliveries/routes.py",
        "body, request.seed",
        "body, None",
        ("tests/http/access/test_idempotency.py", "-k", "after_a_crash and sqlite"),
    ),
    Mutant(
        "a_refusal_forgets_the_request_of_another_server",
        f"{SQLITE}/idempotency.sql",
        "\n  and not shared;",
        ";",
        ("tests/http/access/test_idempotency.py", "-k", "another_server and sqlite"),
    ),
    Mutant(
        "a_worker_declared_dead_may_send_heartbeats",
        f"{SQLITE}/workers.sql",
        "where id = :worker and ended_at is null\nreturning id",
        "where id = :worker\nreturning id",
        ("tests/stores/test_workers.py", "-k", "sqlite"),
    ),
    Mutant(
        "a_dead_worker_may_claim",
        f"{POSTGRES}/agenda.sql",
        "where w.id = :worker and w.ended_at is null)",
        "where w.id = :worker)",
        (CLAIMING, "-k", "dead_or_unknown and postgres"),
    ),
    Mutant(
        "a_claim_marks_nothing",
        f"{SQLITE}/agenda.sql",
        "set token = :token, claimed_at = :now",
        "set token = null, claimed_at = :now",
        (CLAIMING, "-k", "sqlite"),
    ),
    Mutant(
        "claiming_what_is_not_due",
        f"{POSTGRES}/agenda.sql",
        "and a.due_at <= coalesce(:now::timestamptz, now())",
        "and a.due_at <= coalesce(:now::timestamptz, now()) + interval '1 year'",
        (CLAIMING, "-k", "due and postgres"),
    ),
    Mutant(
        "other_deliveries_are_blamed_for_a_crash",
        "domain/deliveries/crashes.py",
        "suspect_after: int = 2",
        "suspect_after: int = 0",
        ("tests/domain/deliveries/test_outcomes.py", "-k", "together_with_others or crashed_alone"),
    ),
    Mutant(
        "poison_is_never_dead",
        "domain/deliveries/crashes.py",
        "return crashes >= self.suspect_after + self.poison_after",
        "return False",
        ("tests/domain/deliveries/test_outcomes.py", "-k", "together_with_others or crashed_alone"),
    ),
    Mutant(
        "a_lost_claim_is_not_released",
        "engine/dispatch/claims.py",
        "        self._doubtful |= dict.fromkeys(given, self._clock.monotonic() + DOUBT_SECONDS)\n",
        "        pass\n",
        ("tests/engine/dispatch/test_dispatcher.py",),
    ),
    Mutant(
        "a_run_continues_after_a_failure",
        "engine/execution/delivery_runner.py",
        "if settlement.verdict is not Verdict.COMPLETED or self.is_draining or held.draining:\n",
        "if self.is_draining or held.draining:\n",
        ("tests/services/streams/test_order.py",),
    ),
    Mutant(
        "a_dead_head_does_not_block_its_stream",
        "domain/streams/policy.py",
        "        return Move.BLOCK if policy is Policy.BLOCK else Move.LEAVE\n",
        "        return Move.LEAVE\n",
        ("tests/services/streams/test_order.py",),
    ),
    Mutant(
        "a_replay_is_ordered_by_death",
        f"{SQLITE}/dead_letters.sql",
        "order by d.stream, d.position, d.id limit",
        "order by d.dead_at, d.id limit",
        ("tests/services/test_dead_letters.py", "-k", "whenever_it_died and sqlite"),
    ),
    Mutant(
        "a_retried_dead_letter_is_retried_again",
        f"{SQLITE}/dead_letters.sql",
        "t.outcome = 'retried'",
        "t.outcome = 'never'",
        ("tests/stores/test_dead_letters.py", "-k", "clock_that_is_behind and sqlite"),
    ),
    Mutant(
        "an_open_circuit_allows_all_deliveries",
        "domain/endpoints/gates.py",
        "        return _probe(gate, now)\n",
        "        return gate, Pass(wanted)\n",
        ("tests/transports/test_endpoints.py",),
    ),
    Mutant(
        "an_endpoint_that_answers_410_is_not_disabled",
        "engine/targets/admission.py",
        "    if report.gone:\n",
        "    if False:\n",
        ("tests/transports/test_endpoints.py",),
    ),
    Mutant(
        "outcomes_are_lost_when_the_store_is_unavailable",
        "engine/execution/settler.py",
        "            self._waiting[:0] = batch\n",
        "            pass\n",
        ("tests/engine/execution/test_settler.py",),
    ),
    Mutant(
        "pruning_deletes_unfinished_deliveries",
        f"{SQLITE}/maintenance.sql",
        "state in ('completed', 'cancelled')\n        and finished_at <",
        "state <> 'dead'\n        and accepted_at <",
        ("tests/stores/deliveries/test_maintenance.py", "-k", "sqlite"),
    ),
    Mutant(
        "a_finished_delivery_may_change",
        f"{SQLITE}/migrations/0005_dead_letters.sql",
        "and old.state <> 'pending'\n",
        "and old.state = 'never'\n",
        (SETTLING, "-k", "refuses_a_move and sqlite"),
    ),
    Mutant(
        "an_occurrence_may_exist_twice",
        f"{SQLITE}/migrations/0001_ledger_and_agenda.sql",
        "create unique index duly.deliveries_occurrence",
        "create index duly.deliveries_occurrence",
        (SCHEDULES, "-k", "refuses_an_occurrence and sqlite"),
    ),
    Mutant(
        "the_mark_is_not_advanced",
        "domain/schedules/planning.py",
        "progress.fired_at if progress.made_at is None else progress.made_at",
        "progress.fired_at",
        ("tests/domain/schedules/test_planning.py",),
    ),
    Mutant(
        "the_window_is_ignored",
        "domain/schedules/planning.py",
        "has_window = timing.window is not None",
        "has_window = False",
        ("tests/domain/schedules/test_planning.py", "-k", "older_than_the_window"),
    ),
    Mutant(
        "occurrences_are_made_outside_the_transaction",
        "stores/schedules/plans.py",
        "    steps = [(id, plan.progress) for id, plan in plans]\n",
        "    await session.connection.execute('commit; begin')\n"
        "    steps = [(id, plan.progress) for id, plan in plans]\n",
        (PLANS, "-k", "fails_half_way and middle and postgres"),
    ),
    Mutant(
        "an_outdated_plan_is_written",
        f"{POSTGRES}/schedules.sql",
        "where p.schedule = t.schedule and p.version = t.version",
        "where p.schedule = t.schedule",
        (PLANS, "-k", "quick_plan and postgres"),
    ),
    Mutant(
        "a_claimed_occurrence_counts_as_pending",
        f"{SQLITE}/schedules.sql",
        "where d.id = :id and d.attempt = 0 and a.token is null and a.crashes = 0",
        "where d.id = :id",
        (SCHEDULES, "-k", "never_held and sqlite"),
    ),
    Mutant(
        "a_live_worker_protects_no_schedule",
        f"{POSTGRES}/declarations.sql",
        "w.ended_at is null\n",
        "w.ended_at is not null\n",
        (ORPHANS, "-k", "while_an_old_worker_lives"),
    ),
    Mutant(
        "an_orphan_is_not_checked_again",
        "stores/schedules/declarations.py",
        "only_if=is_orphan",
        "only_if=None",
        (ORPHANS, "-k", "declared_again_meanwhile and sqlite"),
    ),
    Mutant(
        "a_clock_far_behind_still_plans",
        "engine/planner.py",
        "return None if stops else planned_until",
        "return now",
        ("tests/engine/test_planner.py", "-k", "fifteen_minutes and sqlite"),
    ),
    Mutant(
        "overlaps_are_not_checked",
        "engine/execution/execution.py",
        "return await schedules.unfinished_before(self.claimed.id, self._own_stream) > 0",
        "return False",
        ("tests/engine/test_planner.py", "-k", "skip_does_not_run and sqlite"),
    ),
    Mutant(
        "a_commit_wakes_no_worker",
        "stores/deliveries/outbox.py",
        "transaction.after_commit = self._hint",
        "transaction.after_commit = None",
        ("tests/services/deliveries/test_outbox.py", "-k", "woken and postgres"),
    ),
    Mutant(
        "a_commit_of_the_driver_wakes_no_worker",
        f"{POSTGRES}/migrations/0007_outbox.sql",
        "perform pg_notify('duly', r.namespace);",
        "null;",
        ("tests/services/deliveries/test_outbox_drivers.py", "-k", "wakes"),
    ),
    Mutant(
        "a_failed_transaction_is_reported_as_committed",
        "stores/deliveries/transactions.py",
        "await self.execute(IDLE_LIMIT)",
        "pass",
        ("tests/services/deliveries/test_outbox.py", "-k", "committed_over and postgres"),
    ),
    Mutant(
        "a_duplicate_is_reported_as_new",
        f"{SQLITE}/inbox.sql",
        "on conflict do nothing\nreturning",
        "on conflict do update set received_at = :now\nreturning",
        ("tests/services/deliveries/test_inbox.py", "-k", "first_result and sqlite"),
    ),
    Mutant(
        "an_unavailable_store_spends_an_attempt",
        "engine/execution/execution.py",
        "        except StoreUnavailable:\n            outcome = STORE_AWAY\n",
        "",
        ("tests/engine/execution/test_every_await.py", "-k", "handed_back and sqlite-overlap"),
    ),
    Mutant(
        "a_place_with_a_running_thread_is_freed",
        "transports/handlers/registry.py",
        "                if call.cancel():\n",
        "                if True:\n",
        ("tests/engine/execution/test_overrunning.py", "-k", "stream_waits and sqlite"),
    ),
    Mutant(
        "what_is_held_starts_without_a_lease",
        "engine/execution/delivery_runner.py",
        "        if not self._membership.lease.holds():\n",
        "        if False:\n",
        (AHEAD, "-k", "lease_ran_out and sqlite"),
    ),
    Mutant(
        "a_hand_back_forgets_a_lane",
        "engine/execution/delivery_runner.py",
        "(*self._tasks.waiting.take(self.held, which), *self.behind.take(which))",
        "self._tasks.waiting.take(self.held, which)[1:]",
        (AHEAD, "-k", "drains_hands_back and sqlite"),
    ),
    Mutant(
        "what_is_held_is_never_handed_back",
        "engine/dispatch/dispatcher.py",
        "        self._runner.hand_back_late()\n",
        "",
        (AHEAD, "-k", "not_started_in_time and sqlite"),
    ),
    Mutant(
        "a_hand_back_counts_as_done",
        "engine/execution/delivery_runner.py",
        "        self._admission.unclear(claimed.target, timedelta())\n        self.is_alone",
        "        self._ended_by[claimed.target] += 1\n        self.is_alone",
        (AHEAD, "-k", "count_as_done"),
    ),
    Mutant(
        "what_has_limits_is_held_ahead",
        "engine/targets/admission.py",
        "return target not in self._outside and target not in self._guarded",
        "return True",
        (AHEAD, "-k", "has_limits"),
    ),
    Mutant(
        "a_hanging_target_is_held_ahead",
        "engine/targets/pace.py",
        "self._rates[target] = before + weight * (now_rate - before)",
        "self._rates[target] = max(before, now_rate)",
        ("tests/engine/targets/test_pace.py",),
    ),
]


@pytest.mark.requirement("C1", "D4", "D7", "D8")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_fault_is_detected(
    mutant: Mutant, tmp_path: Path, postgres: ForeignServer | Server
) -> None:
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source)
    file = source / "duly" / mutant.file
    text = file.read_text()
    assert mutant.before in text, "the file no longer contains the text; update the mutant"
    file.write_text(text.replace(mutant.before, mutant.after))
    done = subprocess.run(
        [*PYTEST, "-x", "-q", "-p", "no:cacheprovider", *mutant.tests],
        cwd=ROOT,
        env=os.environ
        | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        # Starting another server would take longer than most of these tests.
        | {"DULY_TEST_POSTGRES": postgres.url()},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 1, f"no test failed:\n{done.stdout[-1500:]}"
