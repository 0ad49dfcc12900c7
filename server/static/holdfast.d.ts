/** Types of `holdfast.js`; docs/page.md describes each. */

export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };
export type Token = string | { token: string; expires_at?: number; scopes?: string[]; kinds?: string[] };

export interface ConnectOptions {
  /** Where the server is; by default the page's own origin. */
  url?: string;
  /** A page token, or a function that asks the application's back end for one. */
  token?: string | ((asked: { signal?: AbortSignal }) => Promise<Token>);
  /** The default conversation of `conversation()`. */
  conversationId?: string;
}

// From the description of the API, by docs/page_types.py:
/** A suspended call as a person is shown it; `resolve` decides exactly the call that is shown. */
export interface Call {
  conversation_id: string;
  /** The name of the conversation's agent. */
  agent: string;
  tool_call_id: string;
  /** The id of this wait: a decision that names it is for this call and these arguments. */
  suspension_id: string;
  /** The tool's name. */
  tool: string;
  /** The arguments, a JSON object. */
  arguments: { [name: string]: Json };
  /** Who produces the result. */
  executor: Executor | null;
  /** The kind of decision that the call waits for. */
  kind: SuspensionKind | null;
  /** The tool's question to a person, if it has one. */
  prompt: string | null;
  /** The JSON Schema that an answer must fit, if there is one. */
  response_schema: { [name: string]: Json } | boolean | null;
  /** Since when the call waits, in integer milliseconds UTC. */
  created_at: number;
  /** The deadline, in integer milliseconds UTC; null if the call has none. */
  expires_at: number | null;
  /** Why part of the call cannot be read: a newer Holdfast wrote it, the store is corrupt, it nests too deeply, or it is gone. Fields that could not be read are empty or null. */
  problem: string | null;
  /** The model call whose answer asked for the call; calls of one answer have the same. */
  batch_id: string;
  /** The decisions that settle it. For an approval: `cancel` and what its tool allows of `approve`, `edit`, `deny` and `answer`. While a client executes it: `cancel`; the client itself answers with its `client_id`. */
  decisions: string[];
  /** What a review is about, in one line. */
  title: string | null;
  /** What a review asks for, in one word. */
  action: string | null;
  /** The report for the reviewer, in markdown. A tool wrote it: trust it no more than its arguments. */
  report_md: string | null;
  /** What a review is about, as a JSON value. */
  payload: Json;
  /** The permission rule that asks for an approval; empty if no rule does. */
  rule: string;
  /** Why the permission rules ask, in the rule's words. */
  rule_reason: string;
  /** What the call touches, which a grant for it has to cover. Empty: its tool cannot tell, and no grant covers the call. null: its tool does not say, and a grant for the tool covers it. */
  targets: Target[] | null;
  /** Who may decide the call, and how many must agree; null: anybody with the right to decide. */
  approvers: Approvers | null;
  /** Who sent the message that led to the call; null if unknown. */
  requester: Person | null;
  /** The votes so far, if several people must agree. */
  votes: Vote[];
  /** Who the call is assigned to; empty for nobody. */
  assigned: string;
  /** The approvers' comments for each other. */
  comments: Comment[];
  /** Since when its approvers decide in the place of others, in integer milliseconds UTC; null if they do not. */
  escalated_at: number | null;
  /** Until when it is hidden from the lists of those who said "not now", in integer milliseconds UTC, by their proof and id (`key:ana`). */
  snoozed: { [name: string]: number };
  /** The questions of a call of `ask_user_questions`, which takes `{id: value}` as an answer; null for every other call. */
  questions: Question[] | null;
  /** The conversations above the call's own, the root first, if another one has delegated to it. */
  path: Ancestor[];
  /** The client that executes it; null if none does. Others can only cancel it then. */
  claimed: Claimant | null;
  /** How often clients have claimed it so far. */
  attempt: number;
  /** The fields that are too long for a list, by name: there they are empty or null; the call by itself has them whole. If `votes` or `comments` are too long together, each text is shortened and ends in `…`. */
  cut: { [name: string]: Cut };
}
/** A call that runs, or waits for a worker. */
export interface Run {
  tool_call_id: string;
  /** The tool's name. */
  tool: string;
  /** The arguments' JSON text, cut off after 500 characters (its end is `…`). */
  arguments: string;
  /** When this run was scheduled, in integer milliseconds UTC. */
  since: number;
  /** The number of this run of the call, from 1. */
  attempt: number;
  /** Who produces the result. */
  executor: Executor;
  /** The last report of a streaming tool: `value`, `message` and `at` (integer milliseconds UTC), those of `status`, `loaded` and `total` that it gave, and `truncated` if the report was too large to be kept whole. */
  progress: { [name: string]: Json } | null;
  /** The ids of the grants by which it runs without anybody's approval. */
  grants: string[];
}
/** Where a conversation stands. */
export interface State {
  conversation_id: string;
  /** `quarantined` if the conversation's own work took processes down. */
  status: Status;
  /** The current turn, else the last one; null before the first. */
  turn_id: string | null;
  /** The text of the last completed turn's answer. */
  reply: string | null;
  /** The object in `reply`, if the agent's `reply=` gives replies a shape; null otherwise. */
  value: { [name: string]: Json } | null;
  /** The error of the last turn, if it failed, or the reason of the quarantine. */
  error: string | null;
  /** Why the last turn failed; null if it did not. */
  failed: FailureReason | null;
  /** What cut the last reply off, or stopped the last turn; null if the reply is whole. */
  stopped: StopReason | null;
  /** The bound of the agent's `Stop` that ended the last turn; empty otherwise. */
  detail: string;
  /** The calls that wait for a decision, in the model's order. */
  pending: Call[];
  /** The calls that run, in the model's order. */
  running: Run[];
  /** The place of the last event in the log; pass it as `after`. */
  seq: number;
  /** The name of the conversation's agent. */
  agent: string;
  /** The import path of the agent's app. */
  app: string;
  /** When it was started, in integer milliseconds UTC. */
  created_at: number;
  /** When it last changed, in integer milliseconds UTC. */
  updated_at: number;
  /** Why workers cannot run the app; null if no problem is known. */
  problem: string | null;
  /** The results that came after their calls were settled. */
  late: Late[];
  /** Whether there is somebody to ask, as the conversation was started. */
  attended: boolean;
  /** Whom its suspended calls wait for: `people` if any does; `machines` if nobody has to do anything; null if no call is suspended. */
  waits_for: WaitsFor | null;
  /** The calls that wait for other conversations, in the model's order. */
  waits: Wait[];
}
/** The receipt of a decision. */
export interface Resolved {
  conversation_id: string;
  /** The place in the log of the event that records the request. */
  seq: number;
  /** The time of that event, in integer milliseconds UTC. */
  accepted_at: number;
  /** Whether the request was recorded before, under the same key. */
  duplicate: boolean;
  /** Whether the call is decided; false if others must agree, too. */
  settled: boolean;
  /** How many people have agreed, this one included; 0 if one is enough. */
  votes: number;
  /** How many people must agree; 0 if one is enough. */
  needed: number;
  /** The head of the audit chain after the request; empty for an assignment or a comment, which it leaves out. */
  audit_head: string;
  decision_id: string;
}
/** The receipt of a start or a message. */
export interface Sent {
  conversation_id: string;
  /** The place in the log of the event that records the request. */
  seq: number;
  /** The time of that event, in integer milliseconds UTC. */
  accepted_at: number;
  /** Whether the request was recorded before, under the same key. */
  duplicate: boolean;
  /** The head of the audit chain after the request; empty for an assignment or a comment, which it leaves out. */
  audit_head: string;
  message_id: string;
}
/** The receipt of a revocation. */
export interface Revoked {
  conversation_id: string;
  /** The place in the log of the event that records the request. */
  seq: number;
  /** The time of that event, in integer milliseconds UTC. */
  accepted_at: number;
  /** Whether the request was recorded before, under the same key. */
  duplicate: boolean;
  /** The head of the audit chain after the request; empty for an assignment or a comment, which it leaves out. */
  audit_head: string;
  request_id: string;
}
/** The receipt of a claim. */
export interface Claimed {
  conversation_id: string;
  /** The place in the log of the event that records the request. */
  seq: number;
  /** The time of that event, in integer milliseconds UTC. */
  accepted_at: number;
  /** Whether the request was recorded before, under the same key. */
  duplicate: boolean;
  /** The head of the audit chain after the request; empty for an assignment or a comment, which it leaves out. */
  audit_head: string;
  /** Which claim of the call it is, from 1. */
  attempt: number;
  request_id: string;
}
/** Whether anybody listens to the conversation's live events. */
export interface Heard {
  heard: boolean;
}
/** What a cancellation really cancelled. */
export interface Cancelled {
  conversation_id: string;
  /** The turn of the calls, or the id of a summary in place of one; null if there was nothing to cancel. */
  turn_id: string | null;
  /** The ids of the calls that were cancelled. */
  calls: string[];
  /** Whether the cancellation was recorded before, under the same key. */
  duplicate: boolean;
  /** The cancelled calls whose bodies still ran when this was returned (`wait_s` waits for them). */
  running: string[];
  /** The head of the audit chain after the cancellation; empty if there was nothing to cancel. */
  audit_head: string;
  request_id: string;
}
/** What an interruption cancelled and superseded. */
export interface Interrupted {
  conversation_id: string;
  /** The place in the log of the event that records its message, or else the interruption. */
  seq: number;
  /** The time of that event, in integer milliseconds UTC. */
  accepted_at: number;
  /** The turn that was cancelled, or the id of a summary in place of one; null if there was none. */
  turn_id: string | null;
  /** The ids of the calls that were cancelled. */
  cancelled: string[];
  /** The ids of the messages that are never answered. */
  superseded: string[];
  /** How often the conversation has been interrupted, this time included. */
  epoch: number;
  /** Whether the interruption was recorded before, under the same key. */
  duplicate: boolean;
  /** The head of the audit chain after it; empty if there was nothing to interrupt. */
  audit_head: string;
  request_id: string;
}
/** A message that no turn has taken up yet. */
export interface QueuedMessage {
  message_id: string;
  /** `queued` or `delayed`. */
  status: MessageStatus;
  /** Its text, or its first 500 characters; parts that are no text are said in words. */
  text: string;
  /** Its priority, from 0 (first) to 255 (last). */
  priority: number;
  /** When it is queued, in integer milliseconds UTC; null if it is. */
  due_at: number | null;
  /** Whether it joins the turn that goes on, before the next model call. */
  steers: boolean;
  /** Where it comes from, as its sender says. */
  origin: Origin;
  /** Who sent it; null if unknown. */
  principal: Person | null;
  /** When it was recorded, in integer milliseconds UTC. */
  accepted_at: number;
}
/** A person or a program that starts, sends or decides. */
export interface Person {
  /** The name, 1 to 200 characters without control characters and without white space around it: `ana@shop.example`. */
  id: string;
  /** The principal's roles, at most 64 names of the same form: `finance`. */
  roles: string[];
  /** How it was proven; set by the code that verified it. */
  proof: Proof;
}
/** One question to a person, answered by one option, by several options or by free text. */
export interface Question {
  /** The name of its answer: 1 to 64 visible characters, without spaces around them. */
  id: string;
  /** What the person is asked, 1 to 2,000 characters. */
  text: string;
  /** The texts to choose from, at most 32 of at most 200 characters; null: the answer is free text. */
  options: string[] | null;
  /** Whether several options may be chosen. */
  multiple: boolean;
  /** Whether it has to be answered. */
  required: boolean;
  /** The answer if none is given: a text, an option, or several options. */
  default: string | string[] | null;
}
/** A target of a call, as the log keeps it. */
export interface Target {
  /** `tool`, `path`, `domain`, `command`, or a name of the app's own. */
  kind: string;
  /** The name of what is touched. */
  value: string;
  /** How much the call does with it. */
  level: Level;
}
/** The approvers of one call. */
export interface Approvers {
  /** Lists of roles (`role:finance`) and ids (`id:ana`): a decider must be in each. Empty: anybody with an id. */
  who: string[][];
  /** How many different people must agree. */
  minimum: number;
  /** Whether the sender of the message that led to the call is excluded. */
  not_requester: boolean;
  /** Whether an unproven principal counts, too. */
  stated: boolean;
  /** Whether each call needs its own decisions, so that no grant replaces one. */
  each: boolean;
}
/** A person's yes to a call that several must approve, as it is shown. */
export interface Vote {
  by: Person;
  /** In integer milliseconds UTC. */
  at: number;
  decision: DecisionKind;
  /** What the decision says: an answer, or a review's verdict and notes. */
  value: Json;
  reason: string;
}
/** The client that executes a call. */
export interface Claimant {
  /** The client's id, in the name space of its principal. */
  client_id: string;
  /** Who the client acts for; null if nobody said so. */
  by: Person | null;
  /** In integer milliseconds UTC. */
  at: number;
}
/** A comment on a pending call, for its other approvers. */
export interface Comment {
  /** Who wrote it; null if unknown. */
  by: Person | null;
  /** In integer milliseconds UTC. */
  at: number;
  text: string;
}
/** A field that is too long for a list. */
export interface Cut {
  /** The size of the field's text; of a JSON value, that of its JSON text. */
  size_bytes: number;
  /** Its first characters. */
  begins: string;
}
/** A result that came after its call was settled, and changed nothing. */
export interface Late {
  /** The effect whose outcome it was: the call's id and the number of its run. */
  effect_id: string;
  /** When it came, in integer milliseconds UTC. */
  at: number;
  /** The result or the error, cut off after 500 characters (its end is `…`); null without one. */
  content: string | null;
  /** Why the result cannot be read; null if it can. */
  problem: string | null;
}
/** A grant that stands: what runs without asking. */
export interface Grant {
  /** Its id in the conversation. */
  grant_id: string;
  /** The kind of targets that it covers. */
  kind: string;
  /** The glob over their values. */
  pattern: string;
  /** The highest level that it allows. */
  level: Level;
  /** In integer milliseconds UTC; null: it ends with the conversation, or when revoked. */
  ends_at: number | null;
  /** Who gave it; null if unknown. */
  by: Person | null;
  /** The place in the log of the decision that gave it. */
  seq: number;
}
/** A conversation above another one, and its agent. */
export interface Ancestor {
  conversation_id: string;
  agent: string;
}
/** A call that waits for another conversation, its child. */
export interface Wait {
  tool_call_id: string;
  /** The tool's name. */
  tool: string;
  /** The child, which may not have started yet. */
  conversation_id: string;
  /** Since when the call waits, in integer milliseconds UTC. */
  since: number;
  /** The deadline, in integer milliseconds UTC; the child ends with it. */
  expires_at: number;
}
/** A conversation in a tree, with those that its present turn, or its last one, has delegated to. */
export interface Tree {
  conversation_id: string;
  /** The name of the conversation's agent. */
  agent: string;
  /** Its status; null if it cannot be shown. */
  status: Status | null;
  /** How many of its own calls wait for a decision. */
  pending: number;
  /** Those that it has delegated to, in the model's order. */
  children: Tree[];
  /** The parent's call that it was started for; empty at the root. */
  tool_call_id: string;
  /** Whether that call waits for it. */
  waited_for: boolean;
  /** Why it or its children cannot be shown: not started yet, gone, unreadable, or not for you. */
  problem: string | null;
  /** How many of its children are left out, since the tree is too large. */
  left_out: number;
}
/** The calls that an approver lets run without asking from now on, beyond the call that is decided. */
export interface Scope {
  /** The kind of targets: `tool`, `path`, `domain`, `command` or one of your own. */
  kind: string;
  /** A glob over their values, 1 to 256 bytes: `src/**`, `*.example.com`, `npm *`. */
  pattern: string;
  /** The highest level allowed: `read`, `write`, `execute` or `admin`; each includes those before it. */
  level: "read" | "write" | "execute" | "admin";
  /** The seconds until it ends, at most ten years; null: it ends with the conversation, or when revoked. */
  ends_s?: number | null;
  /** Whether the pattern may cover every value of its kind; a pattern that does is refused without it. */
  everything?: boolean;
}
/** What the model calls of one turn have in place of what the agent says; null: as the agent says. */
export interface Overrides {
  model?: string | null;
  temperature?: number | null;
  max_tokens?: number | null;
  top_p?: number | null;
  reasoning_effort?: string | null;
}
/** The call may run, with its own arguments or with edited ones. */
export interface ApproveDecision {
  /** The client that has claimed the call, if this is its result: nobody else's is taken then. */
  client_id?: string | null;
  /** Edited arguments, a JSON object; null: the call's own. */
  arguments?: { [name: string]: Json } | null;
  /** Why; the log keeps it. */
  reason?: string;
  /** Lets the pending and later calls of the conversation that it covers run without asking. It cannot be given with edited arguments. */
  scope?: Scope | null;
  decision: "approve";
}
/** The call must not run, or the person will not answer. */
export interface DenyDecision {
  /** The client that has claimed the call, if this is its result: nobody else's is taken then. */
  client_id?: string | null;
  /** Why; the model reads it. */
  reason?: string;
  decision: "deny";
}
/** The call's result; `false`, `0`, `""` and `null` are answers like any other. */
export interface AnswerDecision {
  /** The client that has claimed the call, if this is its result: nobody else's is taken then. */
  client_id?: string | null;
  /** Any JSON value. */
  value: Json;
  /** Why; the log keeps it. */
  reason?: string;
  decision: "answer";
}
/** The client could not produce a result, or a lost run is to count as failed. */
export interface FailDecision {
  /** The client that has claimed the call, if this is its result: nobody else's is taken then. */
  client_id?: string | null;
  /** What went wrong; the model reads it. */
  error: string;
  /** Why; the log keeps it. */
  reason?: string;
  decision: "fail";
}
/** A lost run is to run again: with the same arguments and idempotency key, `attempt` + 1. */
export interface RedispatchDecision {
  /** The client that has claimed the call, if this is its result: nobody else's is taken then. */
  client_id?: string | null;
  /** Why; the log keeps it. */
  reason?: string;
  decision: "redispatch";
}
/** The call is dropped, and its turn goes on without it. */
export interface CancelDecision {
  /** The client that has claimed the call, if this is its result: nobody else's is taken then. */
  client_id?: string | null;
  /** Why; the model reads it. */
  reason?: string;
  decision: "cancel";
}
/** A verdict on a review that a tool's body asked for. */
export interface ReviewDecision {
  /** The client that has claimed the call, if this is its result: nobody else's is taken then. */
  client_id?: string | null;
  /** `allow`, `block`, or `review`: the agent is to revise it, and may ask again. */
  verdict: "allow" | "block" | "review";
  /** What the agent reads beside the verdict. */
  notes?: string;
  decision: "review";
}
/** The producer of a call's result. */
export type Executor = "server" | "human" | "client" | "provider" | "agent";
/** The kind of decision that a suspended call waits for. */
export type SuspensionKind = "approval" | "elicitation" | "client_exec" | "lost" | "review" | "delegate" | "limit";
/** Why a turn failed. */
export type FailureReason = "model_error" | "model_timeout" | "model_unavailable" | "length" | "content_filter" | "max_model_calls" | "max_calls" | "reply_bytes" | "invalid_reply" | "unusable" | "unsupported_part" | "not_overridable" | "context_overflow" | "budget_exceeded" | "no_agent";
/** The status of a conversation. */
export type Status = "absent" | "idle" | "generating" | "executing_tools" | "awaiting_input" | "failed" | "ended" | "quarantined";
/** Why a completed turn ended before the model had said all: its answer was cut off, or the agent's `Stop` was reached. */
export type StopReason = "length" | "content_filter" | "rounds" | "tokens" | "cost" | "errors" | "tool" | "timeout" | "content" | "loop" | "when";
/** Whom a conversation waits for, of those outside. */
export type WaitsFor = "people" | "machines";
/** The status of a message. */
export type MessageStatus = "delayed" | "queued" | "running" | "completed" | "failed" | "cancelled" | "dropped" | "superseded" | "withdrawn";
/** Where a message comes from, as its sender says: it is shown and logged, and nothing is decided by it. */
export type Origin = "user" | "agent" | "schedule" | "webhook" | "a2a";
/** How a principal was proven. */
export type Proof = "stated" | "link" | "key" | "oidc" | "proxy";
/** How much a call does with a target, or a grant allows; each level includes those before it. */
export type Level = "read" | "write" | "execute" | "admin";
/** The kind of a decision. */
export type DecisionKind = "approve" | "deny" | "answer" | "fail" | "redispatch" | "cancel" | "review";
export type Decision = ApproveDecision | DenyDecision | AnswerDecision | FailDecision | RedispatchDecision | CancelDecision | ReviewDecision;
// So far from the description of the API.
export type Verdict = ReviewDecision["verdict"];
export type Receipt = Omit<Sent, "message_id">;

/** A part of a message, as in OpenAI's chat format; a URL is an https URL, which nothing here fetches, or a `data:` URL. */
export type Part =
  | { type: "text"; text: string }
  | { type: "image_url"; image_url: { url: string; detail?: "auto" | "low" | "high" | null } }
  | { type: "file"; file: { file_data?: string | null; file_url?: string | null; filename?: string | null } };

export interface Message {
  role: "user" | "assistant" | "tool";
  content: string | Part[] | null;
  name?: string;
  tool_call_id?: string;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
  /** What the model, and nobody else, is told of the text before it: that is not the reply of its agent's shape. */
  misfit?: boolean;
}

export interface Event {
  kind: string;
  /** Its place in the log; null for a live event. */
  seq: number | null;
  at: number;
  live: boolean;
  [field: string]: Json;
}

export interface Why {
  /** Why, for the log. */
  reason?: string;
}

export interface Asking {
  signal?: AbortSignal;
  /** For how long the request is tried, in milliseconds. */
  patienceMs?: number;
}

export interface Settled {
  by: string;
  decision: string | null;
  principal: Person | null;
  body: string | null;
  reason?: string;
  at: number;
  decisionId: string | null;
  /** Whether this page made the decision. */
  mine?: boolean;
}

/** The data that elements show: one object, which is updated in place. */
export interface View {
  readonly phase: "loading" | "live" | "offline" | "ended" | "failed";
  readonly error: Error | null;
  readonly state: State | null;
  /** The last messages, and those before them that were read on demand. */
  readonly messages: Message[];
  /** How many of the messages were read on demand, and whether there are more before them: `Conversation.earlier` reads those. */
  readonly older: { count: number; more: boolean };
  /** Messages whose turn has not begun. */
  readonly queued: { seq: number; text: string | Part[] }[];
  readonly writing: { effect: string; text: string } | null;
  /** The calls that the model is writing, by their place. */
  readonly preparing: Map<string, { tool: string }>;
  /** The calls that wait for others of the same answer. */
  readonly held: Map<string, { tool: string }>;
  /** The last report of each run, by call. */
  readonly progress: Map<string, Event>;
  /** How suspensions ended while this page was open. */
  readonly settled: Map<string, Settled>;
  /** The calls that the model's provider executed in the last answer. */
  readonly provided: { key: string; tool: string; input: Json }[];
  /** The suspensions of the calls that a handler of this page runs. */
  readonly here: Set<string>;
}

export interface ClientContext {
  call: Call;
  conversation: Conversation;
  /** How many clients have claimed the call so far, this one included. */
  attempt: number;
  /** Fires once the call is settled or claimed elsewhere, the handler's time is over, or the page detaches or closes. */
  signal: AbortSignal;
  /** Report progress; of reports that are made while one is on its way, the last is sent. */
  reportProgress(value?: Json, how?: Progress): void;
}
export interface Progress {
  message?: string;
  status?: string;
  loaded?: number;
  total?: number;
}
export type Handler = (args: any, context: ClientContext) => unknown;
export type Handlers = { [tool: string]: Handler };

export interface AttachOptions {
  /** What happens once the page is gone: its claimed calls wait for another client (`keep`, the default), or what waits for it ends. */
  onDetach?: OnDetach;
  /** How long a handler may run, in milliseconds; by default a minute. */
  timeoutMs?: number;
  signal?: AbortSignal;
  onSettled?: (settled: { call: Call; outcome: "answer" | "fail" | "stale" | "error"; error?: Error }) => void;
}
export interface Attached {
  /** Stop: handlers are told by their signal, and what they have not finished is given back. */
  detach(): Promise<void>;
}
export type OnDetach = "keep" | "cancel";
type Suspended = Pick<Call, "tool_call_id" | "suspension_id">;

export class Client {
  private constructor();
  conversation(id?: string): Conversation;
}

export class Conversation {
  private constructor();
  readonly id: string;
  state(options?: Asking): Promise<State>;
  tree(options?: Asking): Promise<Tree>;
  messages(options?: Asking & { after?: number }): Promise<Message[]>;
  messagesFrom(cursor?: string, options?: Asking): Promise<{ items: Message[]; again: string | null; at: number }>;
  messagesBefore(
    cursor?: string,
    options?: Asking & { limit?: number },
  ): Promise<{ items: Message[]; previous: string | null; next: string | null; again: string | null; at: number }>;
  send(
    text: string | Part[],
    options?: {
      when?: "queue" | "reject" | "steer" | "interrupt";
      at?: Date;
      priority?: number;
      origin?: Origin;
      overrides?: Partial<Overrides>;
      messageId?: string;
      signal?: AbortSignal;
    },
  ): Promise<Sent>;
  interrupt(
    text?: string | Part[],
    options?: { origin?: Origin; overrides?: Partial<Overrides>; requestId?: string; signal?: AbortSignal },
  ): Promise<Interrupted>;
  queue(options?: Asking): Promise<QueuedMessage[]>;
  withdraw(messageId: string, options?: { requestId?: string; signal?: AbortSignal }): Promise<Revoked>;
  reschedule(
    messageId: string,
    options?: { at?: Date; priority?: number; requestId?: string; signal?: AbortSignal },
  ): Promise<Revoked>;
  cancel(options?: { turnId?: string; requestId?: string; signal?: AbortSignal }): Promise<Cancelled>;
  cancelPending(options?: {
    kind?: SuspensionKind;
    clientId?: string;
    reason?: string;
    requestId?: string;
    signal?: AbortSignal;
  }): Promise<Cancelled>;
  claim(
    call: Suspended,
    options: Asking & { clientId: string; onDetach?: OnDetach; requestId?: string },
  ): Promise<Claimed>;
  giveBack(
    call: Suspended,
    options: Asking & { clientId: string; attempt: number; began?: boolean; reason?: string; keepalive?: boolean },
  ): Promise<Revoked>;
  reportProgress(call: Suspended, said: Progress & { value?: Json }, options: Asking & { clientId: string }): Promise<Heard>;
  presence(options: {
    clientId: string;
    tools: string[];
    onDetach?: OnDetach;
    signal?: AbortSignal;
    onConnection?: (now: "connecting" | "live" | "offline") => void;
  }): AsyncGenerator<Json, void, void>;
  resolve(
    call: Suspended,
    decision: Decision,
    options?: Asking & { clientId?: string; decisionId?: string },
  ): Promise<Resolved>;
  /** Whether this page has a scope, as its token's reply says; true if unknown, since the server judges anyway. */
  lends(scope: string): boolean;
  /** Whether this page may decide calls of a kind, as its token's reply says; true if unknown, since the server judges anyway. */
  decides(kind: string): boolean;
  /** Whether this page may give scopes and end grants, as its token's reply says; true if unknown: the server judges anyway. */
  grantsAllowed(): boolean;
  grants(options?: Asking): Promise<Grant[]>;
  revoke(
    grantId: string,
    options?: Asking & { reason?: string; requestId?: string },
  ): Promise<Revoked>;
  events(options?: {
    after?: number;
    live?: boolean;
    signal?: AbortSignal;
    onConnection?: (now: "connecting" | "live" | "offline") => void;
  }): AsyncGenerator<Event, void, void>;
  attach(handlers: Handlers, options?: AttachOptions): Attached;
  watch(listener: (view: View) => void): () => void;
  earlier(): Promise<void>;
}

export function connect(options?: ConnectOptions): Client;
export function attach(options: AttachOptions & { conversation: Conversation; handlers: Handlers }): Attached;

export function approve(edited?: { [name: string]: Json }, options?: Why & { scope?: Scope }): Decision;
export function deny(reason?: string): Decision;
export function answer(value: Json | undefined, options?: Why): Decision;
export function fail(error: unknown, options?: Why): Decision;
export function redispatch(options?: Why): Decision;
export function cancel(reason?: string): Decision;
export function review(verdict: Verdict, notes?: string): Decision;

export class HoldfastError extends Error {
  readonly code: string;
  /** The status of the response; 0 if there was none. */
  readonly status: number;
  readonly detail: string;
  readonly fields: { [name: string]: Json };
}
export class StaleCall extends HoldfastError {
  readonly reason: string;
  readonly settledBy: string | null;
  readonly settledAt: number | null;
}

declare abstract class HoldfastElement extends HTMLElement {
  conversation: Conversation | null;
}
export class ApprovalElement extends HoldfastElement {}
export class ElicitationElement extends HoldfastElement {}
export class LimitElement extends HoldfastElement {}
export class ReviewElement extends HoldfastElement {
  /** How a report becomes nodes; a string is shown as it is. */
  render: ((text: string, call: Call) => Node | string) | null;
}
export class RunningElement extends HoldfastElement {}
export class MessagesElement extends HoldfastElement {
  /** How a text becomes nodes; a string is shown as it is. */
  render: ((text: string, message: { role: "user" | "assistant"; live: boolean }) => Node | string) | null;
}

/** The words of the elements; replace each as you like. */
export const texts: { [name: string]: string } & {
  settled: { [by: string]: string };
  verdicts: { [verdict: string]: string };
  lastsFor: { [seconds: string]: string };
};

declare global {
  interface HTMLElementTagNameMap {
    "holdfast-approval": ApprovalElement;
    "holdfast-elicitation": ElicitationElement;
    "holdfast-limit": LimitElement;
    "holdfast-review": ReviewElement;
    "holdfast-running": RunningElement;
    "holdfast-messages": MessagesElement;
  }
  interface HTMLElementEventMap {
    "holdfast-resolved": CustomEvent<{ call: Call; decision: Decision; receipt: Resolved }>;
    "holdfast-error": CustomEvent<{ error: Error; call?: Call; decision?: Decision }>;
  }
}
