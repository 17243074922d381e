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
    OpenTransaction,
    Store,
    Swept,
    Targets,
    Transaction,
    Upkeep,
    Wakeups,
    WorkerRow,
    Workers,
)
from duly.ports.streams import DecideStream, Streams
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
    "LateWork",
    "Notebook",
    "OpenTransaction",
    "Opening",
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
    "WorkerRow",
    "Workers",
    "ZoneUse",
]
