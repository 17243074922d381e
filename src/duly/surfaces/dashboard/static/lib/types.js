/** The documents of the API, as far as the pages read them. */

/** @typedef {{ accepted: number, completed: number, failed: number, dead: number, cancelled: number, on_time: number, late: number, reclaimed: number, lateness_seconds: number, run_seconds: number }} Counts */
/** @typedef {{ p50: number, p95: number, p99: number }} Percentiles */
/** @typedef {Counts & { at: string, lateness: Percentiles | null, pickup: Percentiles | null, run: Percentiles | null }} Point */
/** @typedef {{ since: string, until: string, step: number, points: Point[] }} Series */
/** @typedef {{ id: number, at: string, counts: Counts, due: number, late: number, processing: number, dead_letters: number, oldest_due_seconds: number, workers: number }} Second */
/** @typedef {{ at: string, counted_up_to: number, due: number, oldest_due_at: string | null, late: number, oldest_late_at: string | null, upcoming: number, processing: number, dead: number, undecided: number, retries: { count: number, next_at: string | null }, poison: number, blocked_streams: number, paused_streams: number, workers: number, last_beat_at: string | null, planner_lag: number, circuits_open: string[], circuits_probing: string[], endpoints_paused: string[], endpoints_disabled: string[] }} NamespaceStatus */
/** @typedef {{ now: NamespaceStatus, last_hour: Counts }} Overview */
/** @typedef {{ count: number, oldest: string, rate: number | null, seconds_left: number | null }} Backlog */
/** @typedef {{ store: string, workers: number, recovering: Backlog | null, next_planned_at: string | null, planner_lag: number, zones: string }} Status */
/** @typedef {{ id: number, kind: string, subject: string, detail: string, raised_at: string, seen_at: string, cleared_at: string | null }} Alert */
/** @typedef {{ id: string, target: string, state: string, priority: number, attempt: number, due_at: string, accepted_at: string, next_at: string | null, claimed_at: string | null, started_at: string | null, finished_at: string | null, dead_at: string | null, expires_at: string | null, late_seconds: number | null, key: string | null, unique: string | null, replaced: number, replaced_at: string | null, url: string | null, batch: string | null, fair_key: string | null, limit_key: string | null, stream: string | null, position: number | null, schedule: string | null, scheduled_for: string | null, merged: number, tags: string[], reason: string | null, error: string | null, fingerprint: string | null, crashes: number, worker: number | null, progress: number | null, progress_note: string | null, progress_at: string | null, overran_at: string | null, cancel_asked_at: string | null, disposition: string | null, disposition_note: string | null, revive_at: string | null, revivals: number, generation: string | null }} Delivery */
/** @typedef {{ counted_up_to: number, capped: string[], states: Record<string, number> }} DeliveryCounts */
/** @typedef {{ attempt: number, outcome: string, worker: number | null, started_at: string | null, finished_at: string, next_at: string | null, reason: string | null, error: string | null, exception: string | null, traceback: string | null, answer: Record<string, unknown> | null, result: unknown }} Attempt */
/** @typedef {{ at: string, before: string | null, after: string, by: string, attempt: number, worker: number | null, reason: string | null, note: string | null }} Transition */
/** @typedef {{ name: string, attempt: number, done_at: string, result: unknown }} Step */
/** @typedef {Delivery & { endpoint: { name: string, url: string | null } | null, waits: string | null, attempts_allowed: number | null, result: unknown, attempts: Attempt[], steps: Step[], transitions: Transition[] }} DeliveryDetail */
/** @typedef {{ name: string, state: string, description: string | null, target: string | null, next_at: string | null, last_fired_at: string | null, runs: number | null, merged: number | null, skipped: number | null, problem: string | null }} ScheduleSummary */
/** @typedef {{ name: string, declared_in: string, program: string, left_at: string, target: string, next_at: string | null }} OrphanedSchedule */
/** @typedef {{ cron?: string, every?: string, at?: string, yearly?: string, time?: string, tz?: string, dst_gap?: string, feb29?: string, anchor?: string, any_of?: RuleSpec[], calendar?: string, move?: string }} RuleSpec */
/** @typedef {ScheduleSummary & { version: number, rule: RuleSpec, url: string | null, payload: unknown, catch_up: string, overlap: string, window: number | null, cap: number, start: string | null, end: string | null, max_runs: number | null, jitter: number, expires_after: number | null, priority: number, stream: string | null, tags: string[], paused_at: string | null, pause_reason: string | null, declared_in: string | null, created_at: string, updated_at: string }} Schedule */
/** @typedef {{ at: string, local: string, reason: string, more: number }} LeftOut */
/** @typedef {{ at: string, local: string, shifted: boolean, moved_from: string | null, reason: string | null, left_out: LeftOut[] }} UpcomingRun */
/** @typedef {{ name: string, version: number, closed: Record<string, string>, weekend: string[] }} Calendar */
/** @typedef {{ name: string, weekend: string[], dates: number, last_date: string | null, schedules: number, updated_at: string }} CalendarSummary */
/** @typedef {{ rule: string, cron: string | null, kind: string, clock_changes: string, next: UpcomingRun[] }} RuleExplanation */
/** @typedef {{ name: string, state: string, on_failure: string, block_for: number | null, blocked_until: string | null, head: { id: string, state: string, attempt: number, position: number, next_at: string | null, reason: string | null, error: string | null } | null, since: string | null, paused_at: string | null, pause_reason: string | null, waiting: number, oldest_at: string | null, to_do: string }} Stream */
/** @typedef {{ id: string, name: string | null, state: string, then: string, members: number, waiting: number, processing: number, completed: number, dead: number, cancelled: number, opened_at: string, closed_at: string | null, cancelled_at: string | null, finished_at: string | null, counted_at: string | null, completion: string | null, problem: string | null }} Batch */
/** @typedef {{ fingerprint: string, reason: string | null, count: number, first_at: string, last_at: string, targets: string[], error: string | null }} DeadLetterGroup */
/** @typedef {{ reason: string, target: string | null, tries: number, after: number, then: string | null, is_preset: boolean }} RecoveryPolicy */
/** @typedef {{ name: string, first_at: string, with_held: boolean, tried: number, done_at: string | null }} Generation */
/** @typedef {{ matching: number, generation: Generation | null }} Replay */
/** @typedef {{ since: string, at: string, counted_up_to: number, capped: string[], attempts: Record<string, number>, reasons: Record<string, number>, retries: { count: number, next_at: string | null, last_at: string | null }, poison: { count: number, first: { id: string, target: string, crashes: number }[] } }} FailureStats */
/** @typedef {{ began_at: string, ended_at: string | null, seconds: number, late: number, waiting: number, largest_late_seconds: number, median_late_seconds: number, worked_off_at: string | null }} Outage */
/** @typedef {{ matching: number, moved: number, until: string | null, finished: boolean }} BulkResult */
/** @typedef {{ name: string, url: string, description: string, method: string, timeout: number, rate: number | null, in_flight: number | null, limits: PerKey | null, state: string, state_reason: string | null, state_at: string, circuit: { state: string, failures: number, failing_since: string | null, opened_at: string | null, probe_at: string | null }, waiting: number, under_way: number, secrets: { sealed_with: string | null, signs_until: string | null }[], created_at: string, version: number }} Endpoint */
/** @typedef {{ name: string, in_flight: number | null, rate: number | null }} PerKey */
/** @typedef {{ key: string, in_flight_now: number, waiting: number, next_at: string | null }} LimitKey */
/** @typedef {{ target: string, rate: number | null, in_flight: number | null, per_key: PerKey | null, in_flight_now: number, waiting: number, next_at: string | null, declared_at: string | null }} Limit */
/** @typedef {{ id: number, name: string, namespace: string, started_at: string, beat_at: string, lease: number, concurrency: number, handlers: string[], namespaces: string[], version: string, generation: string | null, ended_at: string | null, ended_how: string | null, draining_at: string | null, holding: number, alive: boolean }} Worker */
/** @typedef {{ id: string, name: string, scope: string, state: string, created_at: string, expires_at: string | null, last_used_at: string | null }} Key */
/** @typedef {{ id: number, done_at: string, actor: string, action: string, subject: string, detail: Record<string, unknown> }} AuditEntry */
/** @typedef {{ id: string, firstName: string, lastName: string, dateOfBirth: string, timezone: string, feb29?: string }} Person */
/** @typedef {{ id: string, dueAt: string, localTime: string, timezone: string, state: string }} Greeting */

export {};
