"""What each package offers is pinned here: a name that comes or goes is a decision, not an accident."""

import importlib
import inspect
import pickle
from collections.abc import Mapping
from types import ModuleType

import pytest

from holdfast.errors import HoldfastError, InvalidDecision
from holdfast.testing import ProviderError

PUBLIC = {
    "": """
        Agent AgentNotFound AgentRow AlreadyVoted Ancestor Answer App AppDiffersWarning AppNotFound AppNotPublished
        Approve Approvers AsyncAttached AsyncClient AsyncConversation AsyncListEvent AsyncPendingCall Attached
        AuditBreak AuditEntry AuditReport BatchRefused Breaker Budget BudgetRow Cancel Cancelled CipherFailed
        CipherMissing ClaimReceipt Client
        ClientContext ClusterError ClusterStopped ClusterUnavailable Compact ConfigurationError Context ContextView
        Conversation ConversationBusy ConversationEnded ConversationExists ConversationNotFound ConversationRow
        ConversationState CorruptStore Decision Deny DurabilityWarning Email Escalate Event Fail FailureReason Fenced
        FilePart Given GivenVote Grant HoldfastError HomeUnusable ImagePart Interrupted InvalidConversationId
        InvalidDecision InvalidInput InvalidLink InvalidMessage InvalidRule LateResult LeaseHeld Level Limits Link
        LinkProblem ListEvent ListEventKind Message MessageNotFound MessagePage MessageStatus Model NewerRecord Node
        NotPermitted NotQueued Notice NoticeKind Notify OlderRelease OnDetach Origin OtherBuild OutcomeUnknown
        Overloaded Overrides Page Pause PendingCall Principal Proof Quarantined Question QueueFull
        QueuedMessage QuotaUsedUp
        Receipt Redispatch Report Retain Review ReviewVerdict Rule RuleCheck Rules RunningCall Scope ServerRefused
        ServerUnavailable Slack StaleCall StaleReason Status Stop StopReason StoreError StoreUnavailable
        Summary SummaryNotFound SummaryStatus Suspend
        SuspensionKind Target TextPart TooManyClients Tool ToolContext ToolRow Turn TurnContext TurnNotFound TurnPage
        TurnStats TurnStatus Unattended UnattendedCall Undelivered UnsupportedServer Usage UsageBy UsageReport
        UsageRow Wait
        Webhook When WrongCluster WrongStore __version__ ask_user_questions delegate tool
    """,
    "events": """
        Approval ApproverTerms ArgumentsDelta CallAssigned CallClaimed CallCommented CallEscalated CallGivenBack
        CallHeld CallReminded CallResolved CallSnoozed CallSuspended CallTarget Choice Compacted
        CompactionRequested CompactionStarted ContextOverflowed
        ConversationStarted
        DecisionKind Ended Event EventBody Executor FailureReason GivenRevoked Grant GrantGiven GrantRevoked InputDue
        InputJoined InputRescheduled InputSuperseded InputWithdrawn Level MessageAccepted ModelAnswered
        NothingCancelled OnDetach OnLost Origin PendingCancelled Principal ProgressReported Proof ReasoningDelta
        RequestedCall Resume RunScheduled SettledBy StopReached StopReason SummaryFailed SummaryFailure SuspensionKind
        SuspensionSettled TextDelta TurnCancelled TurnCompleted TurnFailed TurnStarted VoteCast
    """,
    "conversation": """
        AgentSpec Answer Approval Approve ApproverTerms Approvers Assign BeginTurn Breaker Budget CallModel CallTarget
        Cancel CancelPending CancelTurn Cancelled Choice Claim ClaimReceipt Command Comment Compact CompactNow
        Context Decided
        Decision Deny Effect End Escalate EscalateCall Event Execution Executor Fail FailureReason GiveBack
        Grant Interrupt
        Interrupted Judgement Level Limits ModelFailed ModelReplied OnDetach OnLost Origin Present Principal Proof
        Question Receipt Receipts Redispatch Reply Reschedule Resolve ResolveMany Resume Retain Review ReviewVerdict
        Revoke RevokeGiven RunFinished RunRuled RunSuspended RunTool Scope Send SettledBy Snooze Start State Status
        Stop StopReason Summarized SummaryFailure SuspensionKind TABLE Target Tell ToolSpec TurnStats WaitsFor Wake
        When Withdraw decide evolve outstanding
    """,
    "agent": """
        Agent AgentSpec App Approval Approvers Breaker Budget Compact Context Email Executor InvalidArguments Limits Model
        Notice Notify OnLost Report Retain Rule RuleEffect Rules Slack Stop Suspend Tool ToolContext ToolSpec
        TurnContext TurnStats Unattended UnattendedCall Verdict Webhook ask_user_questions cipher_path code_digest delegate
        load main_file path_of python_path tool
    """,
    "persistence": """
        AccessScope Acquired ApiKey ApiKeyList AppRecord Append Appended Binding Blame BrokenApp Census Change
        ChangePage Changes ConversationRow Conversations ConversationsAndRuns Directory DirectoryAndRuns Due
        EVERYWHERE KnownIds Lane Late Leased Leases Listing Lists Living MemoryStore Moved OpenBreakers Outbox OutboxFigures
        OutboxRow OutboxState Overdue OwedFigures Owner PAUSE_LAG_MS Pause Paused Pausing Place Quarantine Rebuilt RedisStore
        Run RunStatus Runs Store Survey Suspended TRIED_MS Takeover TakeoverReason Tallies Ticket TicketKind Tickets
        Trouble Verdict Visited Waiting opened
    """,
    "actors": """
    """,
    "registry": """
    """,
    "client": """
        AgentNotFound AgentRow AlreadyVoted Ancestor Answer AppDiffersWarning AppNotFound AppNotPublished Approve
        AsyncAttached AsyncClient AsyncConversation AsyncListEvent AsyncPendingCall Attached AuditBreak AuditEntry
        AuditReport BatchRefused BudgetRow Cancel Cancelled CipherFailed CipherMissing ClaimReceipt Client ClientContext
        ClusterStopped ClusterUnavailable ConfigurationError ContextView Conversation ConversationBusy
        ConversationEnded ConversationExists ConversationNotFound ConversationRow ConversationState Decision Deny
        DurabilityWarning Event Fail FailureReason FilePart Given GivenVote Grant HoldfastError ImagePart Interrupted
        InvalidConversationId InvalidDecision InvalidInput InvalidLink InvalidMessage InvalidRule LateResult Level Link
        LinkProblem ListEvent ListEventKind Message MessageNotFound MessagePage MessageStatus Node NotPermitted
        NotQueued OlderRelease OnDetach Origin OtherBuild OutcomeUnknown Overloaded Overrides Page Pause
        PendingCall Principal
        Proof Quarantined Question QueueFull QueuedMessage QuotaUsedUp Receipt Redispatch Review ReviewVerdict
        RuleCheck RunningCall Scope ServerRefused ServerUnavailable StaleCall StaleReason Status StopReason StoreError
        StoreUnavailable Summary SummaryNotFound SummaryStatus SuspensionKind Target TextPart TooManyClients ToolRow Turn
        TurnNotFound TurnPage TurnStatus
        Undelivered Usage UsageBy UsageReport UsageRow Wait When WrongCluster WrongStore
    """,
    "server": """
        Authentication Authenticator Bounds Caller Credential InvalidToken Issuer Presented Proxy create_app drain
        sign_in_link
    """,
    "cli": """
        main
    """,
    "testing": """
        BlockingRehearsal Delay FailAfter FailBefore Fault Faults FaultyStore ModelServer NeverRested NoAnswer
        ProviderError Rehearsal RehearsalResult Replay Request ToolRun blocks call calls events read_script run run_sync say
    """,
    "embedded": """
    """,
}
"""The names of the door (under no name) and of each package, as its `__all__` lists them."""


def module_of(package: str) -> ModuleType:
    """A package; the door itself for no name."""
    return importlib.import_module(f"holdfast.{package}" if package else "holdfast")


VALUES: dict[object, object] = {int: 7, float: 0.5, Mapping[str, HoldfastError]: {"s-1": InvalidDecision("a", "b", "c")}}


def errors() -> list[type[Exception]]:
    """Every exception class that some package exports, once."""
    exported = (getattr(module_of(package), name) for package in PUBLIC for name in PUBLIC[package].split())
    return sorted({found for found in exported if inspect.isclass(found) and issubclass(found, Exception)}, key=str)


def example(error: type[Exception]) -> Exception:
    """An instance; each argument fits its annotation, and is a telling text where that allows one."""
    if error is ProviderError:
        return ProviderError(503, "it {0} 'said' so")
    if not getattr(error, "arguments", None):
        return error("it {0} 'said' so")
    return error(*(VALUES.get(one, f"{name} {{0}} 'x'") for name, one in error.arguments.items()))


@pytest.mark.parametrize("package", PUBLIC)
def test_a_package_offers_exactly_its_pinned_names(package):
    assert sorted(module_of(package).__all__) == PUBLIC[package].split()


@pytest.mark.parametrize("package", PUBLIC)
def test_every_name_that_is_offered_is_there(package):
    module = module_of(package)
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", PUBLIC)
def test_a_name_that_is_not_offered_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module_of(package).nothing


@pytest.mark.parametrize("error", errors(), ids=lambda error: error.__name__)
def test_every_exported_error_crosses_a_process_boundary_as_it_is(error):
    sent = example(error)
    received = pickle.loads(pickle.dumps(sent))  # noqa: S301 - our own
    assert type(received) is error
    shown = [(repr(one.args), str(one), repr(vars(one))) for one in (received, sent)]  # errors within errors have no equality
    assert shown[0] == shown[1]
