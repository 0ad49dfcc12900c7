"""Tools for users' tests: conversations without a stack, a model server, and a fault-injecting store.

Names are imported on first use: pytest loads the plugin of this package in every project.
"""

from typing import TYPE_CHECKING

from holdfast.lazy import lazily

if TYPE_CHECKING:
    from .anthropic_messages import blocks as blocks
    from .blocking_rehearsal import BlockingRehearsal as BlockingRehearsal
    from .blocking_rehearsal import run_sync as run_sync
    from .faulty_store import Delay as Delay
    from .faulty_store import FailAfter as FailAfter
    from .faulty_store import FailBefore as FailBefore
    from .faulty_store import Fault as Fault
    from .faulty_store import Faults as Faults
    from .faulty_store import FaultyStore as FaultyStore
    from .model_server import ModelServer as ModelServer
    from .rehearsal import NeverRested as NeverRested
    from .rehearsal import Rehearsal as Rehearsal
    from .rehearsal import run as run
    from .rehearsal_result import RehearsalResult as RehearsalResult
    from .rehearsal_result import ToolRun as ToolRun
    from .scripted_model import ProviderError as ProviderError
    from .transcripts import NoAnswer as NoAnswer
    from .transcripts import Replay as Replay
    from .transcripts import Request as Request
    from .transcripts import call as call
    from .transcripts import calls as calls
    from .transcripts import events as events
    from .transcripts import read_script as read_script
    from .transcripts import say as say

__getattr__ = lazily(__name__)
