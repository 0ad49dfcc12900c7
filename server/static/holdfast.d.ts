/** Types of `holdfast.js`; the page of the documentation on pages of your own says what each does. */

export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };
export type Token = string | { token: string; expires_at?: number; scopes?: string[]; kinds?: string[] };

export interface ConnectOptions {
  /** Where the server is; by default the page's own origin. */
  url?: string;
  /** A page token, or what asks the application's back end for one. */
  token?: string | ((asked: { signal?: AbortSignal }) => Promise<Token>);
  /** The conversation that `conversation()` leads to. */
  conversationId?: string;
}

export interface Question {
  id: string;
  text: string;
  options: string[] | null;
  multiple: boolean;
  required: boolean;
  default: string | string[] | null;
}

export interface Call {
  conversation_id: string;
  agent: string;
  tool_call_id: string;
  suspension_id: string;
  tool: string;
  arguments: { [name: string]: Json };
  executor: "server" | "human" | "client" | "provider" | null;
  kind: "approval" | "elicitation" | "client_exec" | "lost" | "review" | null;
  prompt: string | null;
  response_schema: { [name: string]: Json } | boolean | null;
  created_at: number;
  expires_at: number | null;
  problem: string | null;
  /** What has the same came with one answer of the model. */
  batch_id: string;
  /** What may be decided: of an approval `approve`, `edit`, `deny`, `answer`, as its tool allows, and `cancel`; else decisions. */
  decisions: string[];
  /** Of a review: its title, what it asks for, the tool's report in markdown, and what it is about as data. */
  title: string | null;
  action: string | null;
  report_md: string | null;
  payload: Json;
  /** Of an approval: the permission rule that asks for it, and why; empty where none does. */
  rule: string;
  rule_reason: string;
  /** The questions of a call of `ask_user_questions`, which takes `{id: value}` as an answer; null for every other call. */
  questions: Question[] | null;
  /** What the call touches, for grants; null where its tool does not say. */
  targets: { kind: string; value: string; level: Level }[] | null;
  /** Who may decide it, and how many have to agree; null where whoever may decide at all may, and for a page token. */
  approvers: { who: string[][]; minimum: number; not_requester: boolean; stated: boolean; each: boolean } | null;
  /** Who sent the message that led to it. */
  requester: Person | null;
  /** Who has agreed so far, where several have to. A page token reads neither this nor what follows. */
  votes: { by: Person; at: number; decision: string; value: Json; reason: string }[];
  /** Who has taken it on; empty where nobody has. */
  assigned: string;
  /** What those who may decide it wrote to each other. */
  comments: { by: Person | null; at: number; text: string }[];
  cut: Record<string, { size_bytes: number; begins: string }>;
}

export type Person = { id: string; roles: string[]; proof: string };

export interface Run {
  tool_call_id: string;
  tool: string;
  arguments: string;
  since: number;
  attempt: number;
  executor: string;
  progress: { [name: string]: Json } | null;
  /** The grants by which it runs without anybody's approval. */
  grants: string[];
}

export interface State {
  conversation_id: string;
  agent: string;
  status: string;
  turn_id: string | null;
  reply: string | null;
  error: string | null;
  pending: Call[];
  running: Run[];
  seq: number;
  [field: string]: unknown;
}

export interface Message {
  role: "user" | "assistant" | "tool";
  content: string | { type: string; text?: string }[] | null;
  name?: string;
  tool_call_id?: string;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
}

export interface Receipt {
  conversation_id: string;
  seq: number;
  accepted_at: number;
  duplicate: boolean;
  /** The head of the audit chain with what was sent or decided. */
  audit_head: string;
}

export interface Event {
  kind: string;
  /** Its place in the log; null for a live event. */
  seq: number | null;
  at: number;
  live: boolean;
  [field: string]: Json;
}

export interface Resolved extends Receipt {
  decision_id: string;
  /** Whether the call is decided; false where others have to agree, too: `votes` of the `needed` people have. */
  settled: boolean;
  votes: number;
  needed: number;
}

export type Decision =
  | { decision: "approve"; arguments?: { [name: string]: Json }; reason?: string; scope?: Scope }
  | { decision: "deny"; reason: string }
  | { decision: "answer"; value: Json; reason?: string }
  | { decision: "fail"; error: string; reason?: string }
  | { decision: "redispatch"; reason?: string }
  | { decision: "cancel"; reason: string }
  | { decision: "review"; verdict: Verdict; notes: string };
/** `review` sends it back to the agent, with the notes. */
export type Verdict = "allow" | "block" | "review";
export type Level = "read" | "write" | "execute" | "admin";
/** What runs without asking from now on, beside the call that is approved. */
export interface Scope {
  /** `tool`, `path`, `domain`, `command`, or a kind of the application's. */
  kind: string;
  /** A glob over the values. */
  pattern: string;
  /** Up to which level; each includes those before it. */
  level: Level;
  /** After how many seconds it ends; without it, with the conversation or when it is revoked. */
  ends_s?: number;
  /** A pattern that covers every value of its kind is refused without it. */
  everything?: boolean;
}
/** A scope in force. */
export interface Grant {
  grant_id: string;
  kind: string;
  pattern: string;
  level: Level;
  ends_at: number | null;
  by: Person | null;
  seq: number;
}
export interface Why {
  /** Why, for the log. */
  reason?: string;
}

export interface Asking {
  signal?: AbortSignal;
  /** For how long it is tried, in milliseconds. */
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
  /** Whether this page decided. */
  mine?: boolean;
}

/** What elements show; one object, which changes. */
export interface View {
  readonly phase: "loading" | "live" | "offline" | "ended" | "failed";
  readonly error: Error | null;
  readonly state: State | null;
  readonly messages: Message[];
  readonly queued: { seq: number; text: string }[];
  readonly writing: { effect: string; text: string } | null;
  readonly preparing: Map<string, { tool: string }>;
  /** The calls that wait their turn among those of one answer. */
  readonly held: Map<string, { tool: string }>;
  readonly progress: Map<string, Event>;
  readonly settled: Map<string, Settled>;
  readonly provided: { key: string; tool: string; input: Json }[];
}

export interface ClientContext {
  call: Call;
  conversation: Conversation;
  /** Fires once the call is settled elsewhere, its time is over, or the page detaches. */
  signal: AbortSignal;
}
export type Handler = (args: any, context: ClientContext) => unknown;
export type Handlers = { [tool: string]: Handler };

export interface AttachOptions {
  /** How long a handler has, in milliseconds: a minute. */
  timeoutMs?: number;
  signal?: AbortSignal;
  onSettled?: (settled: { call: Call; outcome: "answer" | "fail" | "stale" | "error"; error?: Error }) => void;
}
export interface Attached {
  detach(): void;
}

export class Client {
  private constructor();
  conversation(id?: string): Conversation;
}

export class Conversation {
  private constructor();
  readonly id: string;
  state(options?: Asking): Promise<State>;
  messages(options?: Asking & { after?: number }): Promise<Message[]>;
  messagesFrom(cursor?: string, options?: Asking): Promise<{ items: Message[]; again: string | null; at: number }>;
  send(text: string, options?: { messageId?: string; signal?: AbortSignal }): Promise<Receipt & { message_id: string }>;
  cancel(options?: { turnId?: string; requestId?: string; signal?: AbortSignal }): Promise<{
    conversation_id: string;
    turn_id: string | null;
    calls: string[];
    running: string[];
    duplicate: boolean;
    request_id: string;
  }>;
  resolve(
    call: Pick<Call, "tool_call_id" | "suspension_id">,
    decision: Decision,
    options?: Asking & { decisionId?: string },
  ): Promise<Resolved>;
  /** Whether this page decides calls of a kind, as its token's reply says; else true, and the server judges. */
  decides(kind: string): boolean;
  /** Whether this page gives scopes and ends grants, as its token's reply says; else true, and the server judges. */
  grantsAllowed(): boolean;
  grants(options?: Asking): Promise<Grant[]>;
  revoke(
    grantId: string,
    options?: Asking & { reason?: string; requestId?: string },
  ): Promise<Receipt & { request_id: string }>;
  events(options?: {
    after?: number;
    live?: boolean;
    signal?: AbortSignal;
    onConnection?: (now: "connecting" | "live" | "offline") => void;
  }): AsyncGenerator<Event, void, void>;
  attach(handlers: Handlers, options?: AttachOptions): Attached;
  watch(listener: (view: View) => void): () => void;
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
  /** The status of the response; 0 where there was none. */
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
    "holdfast-review": ReviewElement;
    "holdfast-running": RunningElement;
    "holdfast-messages": MessagesElement;
  }
  interface HTMLElementEventMap {
    "holdfast-resolved": CustomEvent<{ call: Call; decision: Decision; receipt: Resolved }>;
    "holdfast-error": CustomEvent<{ error: Error; call?: Call; decision?: Decision }>;
  }
}
