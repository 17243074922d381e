"""What the engine asks of the world: Protocols and the values that cross them, no logic."""

from duly.ports.endpoints import Endpoints, GateChange, Gates, SeenGate, Waiting
from duly.ports.figures import Figures
from duly.ports.schedules import (
    Audit,
    AuditEntry,
    DueSchedule,
    Plans,
    Schedules,
    Sitting,
    UnreadableSchedule,
    ZoneUse,
)
from duly.ports.steps import Notebook, Steps
from duly.ports.store import (
    Agenda,
    Ask,
    Deliveries,
    Filter,
    LateWork,
    Opening,
    Store,
    Swept,
    Targets,
    Upkeep,
    Wakeups,
    WorkerRow,
    Workers,
)
from duly.ports.streams import DecideStream, Streams
from duly.ports.transactions import (
    Inbox,
    Message,
    OpenTransaction,
    Outbox,
    Transaction,
    WithTransaction,
)
from duly.ports.world import (
    Chance,
    Clock,
    Execution,
    Transport,
)

__all__ = [
    "Agenda",
    "Ask",
    "Audit",
    "AuditEntry",
    "Chance",
    "Clock",
    "DecideStream",
    "Deliveries",
    "DueSchedule",
    "Endpoints",
    "Execution",
    "Figures",
    "Filter",
    "GateChange",
    "Gates",
    "Inbox",
    "LateWork",
    "Message",
    "Notebook",
    "OpenTransaction",
    "Opening",
    "Outbox",
    "Plans",
    "Schedules",
    "SeenGate",
    "Sitting",
    "Steps",
    "Store",
    "Streams",
    "Swept",
    "Targets",
    "Transaction",
    "Transport",
    "UnreadableSchedule",
    "Upkeep",
    "Waiting",
    "Wakeups",
    "WithTransaction",
    "WorkerRow",
    "Workers",
    "ZoneUse",
]
