"""The interfaces of store, transport, clock and randomness: Protocols and values, no logic."""

from duly.ports.analytics import Analytics, AnalyticsFailure
from duly.ports.batches import Batches, Finish, Refusal, UnfinishedBatch
from duly.ports.calendars import Calendars
from duly.ports.claims import ClaimableGroup, ClaimedTurns, ClaimRequest, Round, Turns
from duly.ports.dead_letters import (
    BY_OPERATOR,
    BulkCursor,
    Cause,
    DeadLetterMove,
    DeadLetters,
    Discard,
    GiveUp,
    Hold,
    Release,
    Retry,
)
from duly.ports.declarations import Declarations
from duly.ports.endpoints import (
    Endpoints,
    GateChange,
    Gates,
    ResealedAddresses,
    SeenGate,
)
from duly.ports.failure_stats import FailureStatsTable
from duly.ports.idempotency import KEPT_FOR, PATIENCE, IdempotentRequest, IdempotentRequests
from duly.ports.keys import Keys
from duly.ports.limits import Limits
from duly.ports.monitoring import Alerts, Outages, Rollups, StatusReader, Traces
from duly.ports.recovery import Generations, Recovery, RecoveryWork
from duly.ports.running import Report, Running, RunningDelivery
from duly.ports.schedules import (
    Audit,
    DueSchedule,
    LockedSchedules,
    NextPlan,
    Plans,
    Schedules,
    UnreadableSchedule,
    ZoneUse,
)
from duly.ports.steps import StepRecorder, Steps
from duly.ports.store import (
    Agenda,
    Deliveries,
    Filter,
    LateWork,
    Maintenance,
    Store,
    StoreSizes,
    Swept,
    TargetName,
    Targets,
    Wakeups,
)
from duly.ports.streams import DecideStream, EndedBlock, Joined, LimitedBlock, Streams
from duly.ports.transactions import (
    Inbox,
    Message,
    OpenTransaction,
    Outbox,
    Transaction,
    WithTransaction,
    transaction_of,
)
from duly.ports.transfer import ExportSnapshot, ImportResult, Transfer
from duly.ports.workers import EVERY, Workers
from duly.ports.world import (
    RUNNING,
    Chance,
    Clock,
    Emit,
    Execution,
    Transport,
)
