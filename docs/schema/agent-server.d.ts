// Generated from agent-server.schema.json. Do not edit.
// The wire of agent-server, protocol version 2. Members and values that are not described here are allowed and must be kept.

/** ErrorCategory sorts the errors of events, for machines (open). */
export type ErrorCategory = "auth" | "rate_limit" | "usage_limit" | "context_limit" | "network" | "abort" | "invalid_request" | "process_exit" | "internal" | (string & {});

/** ErrorEvent reports an error. Recoverable says that the turn goes on; the end of a turn is always [TurnEnded]. */
export interface ErrorEvent {
  type: "error";
  sessionId?: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId?: string;
  category: ErrorCategory;
  message: string;
  recoverable: boolean;
  stack?: string;
}

/** MessageEnded closes a message. */
export interface MessageEnded {
  type: "message.ended";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  messageId: string;
}

/** MessagePart is a full snapshot of a part: an upsert by the part's id. It replaces what deltas built. */
export interface MessagePart {
  type: "message.part";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  messageId: string;
  outputIndex: number;
  partIndex: number;
  part: Part;
}

/** MessagePartDelta appends to an open part. */
export interface MessagePartDelta {
  type: "message.part.delta";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  messageId: string;
  outputIndex: number;
  partIndex: number;
  partId: string;
  delta: Delta;
}

/** Role says who speaks in a message (open). */
export type Role = "user" | "assistant" | (string & {});

/** MessageStarted opens a message. One message is open at a time. */
export interface MessageStarted {
  type: "message.started";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  messageId: string;
  /** OutputIndex orders the messages of a turn; the user echo is 0. */
  outputIndex: number;
  role: Role;
  /** ParentToolCallID is the tool call under which a sub-agent speaks. */
  parentToolCallId?: string;
  model?: string;
}

/** ToolKind sorts tools for display (open). */
export type ToolKind = "read" | "edit" | "delete" | "move" | "search" | "execute" | "think" | "fetch" | "switch_mode" | "task" | "other" | (string & {});

/** Location is a place that a tool works on. Line counts from 1; 0 means the whole file. */
export interface Location {
  path: string;
  line?: number;
}

/** PermissionTool describes the call that wants to run. ToolCallID is the [ToolPart.ToolCallID] of the part that shows it, where there is one. */
export interface PermissionTool {
  toolCallId?: string;
  toolName: string;
  kind?: ToolKind;
  title?: string;
  locations?: Location[];
  rawInput?: unknown;
}

/** OptionKind says what a permission option means (open: an unknown kind is never an approval). */
export type OptionKind = "allow_once" | "allow_always" | "reject_once" | "reject_always" | (string & {});

/** A PermissionOption is one possible answer. */
export interface PermissionOption {
  optionId: string;
  name: string;
  kind: OptionKind;
}

/** PermissionRequested asks whether a tool may run. It is answered with `permission/respond` and resolved by exactly one [PermissionResolved] before its turn ends. */
export interface PermissionRequested {
  type: "permission.requested";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  requestId: string;
  title: string;
  toolCall?: PermissionTool;
  options: PermissionOption[];
}

/** OutcomeKind says how a permission request was resolved. The set is closed. */
export type OutcomeKind = "selected" | "cancelled";

/** PermissionOutcome is {outcome:"selected", optionId, updatedInput?} or {outcome:"cancelled"}. UpdatedInput is what runs in place of the requested input; the call is denied where the harness cannot express that. */
export interface PermissionOutcome {
  outcome: OutcomeKind;
  optionId?: string;
  updatedInput?: unknown;
}

/** PermissionResolved says how a request was settled, by whomever: a client, a standing rule that came to be, a timeout, the turn's end. */
export interface PermissionResolved {
  type: "permission.resolved";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  requestId: string;
  outcome: PermissionOutcome;
}

/** Raw is a message of the agent as it came; only with [RunConfig.IncludeRaw], and with no promise of stability. */
export interface Raw {
  type: "raw";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  harness: string;
  data: unknown;
}

/** CompactionStatus is where a compaction stands (open). */
export type CompactionStatus = "in_progress" | "completed" | "failed" | "cancelled" | (string & {});

/** CompactionTrigger says what started a compaction (open). */
export type CompactionTrigger = "auto" | "manual" | (string & {});

/** SessionCompaction says that the harness shortens, or shortened, its context. It is an upsert by CompactionID; the first one fixes its place. */
export interface SessionCompaction {
  type: "session.compaction";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  compactionId: string;
  status: CompactionStatus;
  trigger?: CompactionTrigger;
  /** PreTokens and PostTokens are the context's size before and after. */
  preTokens?: number;
  postTokens?: number;
  summary?: string;
  /** AbstractsIDs are the ids of the messages that the summary stands for. */
  abstractsIds?: string[];
}

/** SessionCreated reports the session's native id. It comes once a turn, when the harness first reports its id: normally mid-turn, after the echo. */
export interface SessionCreated {
  type: "session.created";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  nativeSessionId: string;
  harness: string;
  model?: string;
  /** Resumed is present only when the turn asked to resume; false says that the context was lost. */
  resumed?: boolean;
}

/** EndReason says why a session ended (open). */
export type EndReason = "idle" | "replaced" | "released" | "shutdown" | (string & {});

/** SessionEnded is the last event of a session's log. */
export interface SessionEnded {
  type: "session.ended";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  reason: EndReason;
}

/** NoticeKind sorts notices (open). */
export type NoticeKind = "provisioning" | "retry" | "rate_limit" | "warning" | (string & {});

/** Progress is how far something has come. Total is 0 when it is not known; Unit is "bytes", "attempts", …. */
export interface Progress {
  done: number;
  total: number;
  unit: string;
}

/** SessionNotice is something that a person may want to see while waiting; it is never needed to follow the conversation. */
export interface SessionNotice {
  type: "session.notice";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId?: string;
  kind: NoticeKind;
  message: string;
  progress?: Progress;
}

/** Cost is an amount of money: {amount, currency}, as ACP writes it (RFD 0002). */
export interface Cost {
  amount: number;
  /** Currency is an ISO 4217 code; "USD" when absent. */
  currency?: string;
}

/** SessionUsage is the context gauge: how much of the model's window the conversation fills. It is not the bill; see [TurnEnded.Tokens]. */
export interface SessionUsage {
  type: "session.usage";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  /** Used is in tokens. */
  used: number;
  /** Size is the window, in tokens; 0 when it is not known. */
  size?: number;
  /** Cost is the session's so far, where the harness reports it. */
  cost?: Cost;
}

/** StopReason says why a turn ended (open). */
export type StopReason = "end_turn" | "max_tokens" | "max_turn_requests" | "refusal" | "cancelled" | "error" | (string & {});

/** CacheTokens counts tokens read from and written to the provider's prompt cache; the ephemeral counts are parts of Write. */
export interface CacheTokens {
  read: number;
  write: number;
  writeEphemeral5m?: number;
  writeEphemeral1h?: number;
}

/** Tokens counts a turn's tokens. Billed input is Input + Cache.Read + Cache.Write; Reasoning is part of Output. */
export interface Tokens {
  /** Input excludes cached tokens. */
  input: number;
  output: number;
  reasoning?: number;
  cache?: CacheTokens;
}

/** TurnError says why a turn failed. */
export interface TurnError {
  category: ErrorCategory;
  message: string;
}

/** TurnEnded ends a turn: exactly one per turn, and the turn's last event but for late tool parts. */
export interface TurnEnded {
  type: "turn.ended";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  stopReason: StopReason;
  /** FinishReason is the provider's own word. */
  finishReason?: string;
  /** Tokens is what this turn used, not a running total. */
  tokens?: Tokens;
  /** Cost is what this turn cost, not a running total. */
  cost?: Cost;
  /** Error is present when StopReason is "error". */
  error?: TurnError;
}

/** TurnStarted opens a turn. Its `_meta` holds [MetaOrigin] when the agent began the turn by itself. */
export interface TurnStarted {
  type: "turn.started";
  sessionId: string;
  /** Timestamp is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
}

/** A event of a type that is not described here: keep it in its place. */
export interface UnknownEvent {
  type: string;
}

/** An Event is one entry of a session's history. The union is sealed: its members are the pointer types of the table below and [UnknownEvent]. Switch on the type, with a default for what is not handled. */
export type Event = ErrorEvent | MessageEnded | MessagePart | MessagePartDelta | MessageStarted | PermissionRequested | PermissionResolved | Raw | SessionCompaction | SessionCreated | SessionEnded | SessionNotice | SessionUsage | TurnEnded | TurnStarted | UnknownEvent;

/** FilePart is a file: exactly one of Data (base64) and URL is set. */
export interface FilePart {
  type: "file";
  id: string;
  sessionId: string;
  messageId: string;
  /** ParentToolCallID is the tool call under which a sub-agent made the part. */
  parentToolCallId?: string;
  _meta?: { [key: string]: unknown };
  data?: string;
  url?: string;
  mimeType: string;
  filename?: string;
}

/** ImagePart is a picture: exactly one of Data (base64) and URL is set. */
export interface ImagePart {
  type: "image";
  id: string;
  sessionId: string;
  messageId: string;
  /** ParentToolCallID is the tool call under which a sub-agent made the part. */
  parentToolCallId?: string;
  _meta?: { [key: string]: unknown };
  data?: string;
  url?: string;
  mimeType: string;
}

/** PartState says whether a text or reasoning part still grows. Empty means that the sender did not say. */
export type PartState = "streaming" | "done" | (string & {});

/** TimeSpan is when something began and ended, in milliseconds since the Unix epoch. End is 0 while it goes on. */
export interface TimeSpan {
  start: number;
  end?: number;
}

/** ReasoningPart is a thought of the model. ProviderMetadata is {"redacted":true} for a redacted one. */
export interface ReasoningPart {
  type: "reasoning";
  id: string;
  sessionId: string;
  messageId: string;
  /** ParentToolCallID is the tool call under which a sub-agent made the part. */
  parentToolCallId?: string;
  _meta?: { [key: string]: unknown };
  text: string;
  state?: PartState;
  time?: TimeSpan;
  providerMetadata?: unknown;
}

/** TextPart is text of the model, or of the user in an echo. */
export interface TextPart {
  type: "text";
  id: string;
  sessionId: string;
  messageId: string;
  /** ParentToolCallID is the tool call under which a sub-agent made the part. */
  parentToolCallId?: string;
  _meta?: { [key: string]: unknown };
  text: string;
  state?: PartState;
}

/** Subagent describes the agent that a tool call runs. */
export interface Subagent {
  type?: string;
  description?: string;
  model?: string;
  agentId?: string;
}

/** ToolPart is a tool call and its result. */
export interface ToolPart {
  type: "tool";
  id: string;
  sessionId: string;
  messageId: string;
  /** ParentToolCallID is the tool call under which a sub-agent made the part. */
  parentToolCallId?: string;
  _meta?: { [key: string]: unknown };
  /** ToolCallID is the provider's id of the call. */
  toolCallId: string;
  /** ToolName is the provider's own name. */
  toolName: string;
  kind?: ToolKind;
  title?: string;
  locations?: Location[];
  /** Subagent is present when the call runs a sub-agent; the kind is then [ToolKindTask]. */
  subagent?: Subagent;
  state: ToolState;
}

/** A part of a type that is not described here: keep it in its place. */
export interface UnknownPart {
  type: string;
}

/** A Part is a piece of a message. The union is sealed: its members are the pointer types of the table below and [UnknownPart]. */
export type Part = FilePart | ImagePart | ReasoningPart | TextPart | ToolPart | UnknownPart;

/** ReasoningDelta appends to a [ReasoningPart]. */
export interface ReasoningDelta {
  type: "reasoning";
  text: string;
}

/** TextDelta appends to a [TextPart]. */
export interface TextDelta {
  type: "text";
  text: string;
}

/** ToolInputDelta appends Input, a piece of JSON text, to the partialInput of a pending [ToolPart]. */
export interface ToolInputDelta {
  type: "tool_input";
  toolCallId: string;
  toolName: string;
  input: string;
}

/** A delta of a type that is not described here: keep it in its place. */
export interface UnknownDelta {
  type: string;
}

/** A Delta is what a [MessagePartDelta] appends. The union is sealed: its members are the types of the table below and [UnknownDelta]. */
export type Delta = ReasoningDelta | TextDelta | ToolInputDelta | UnknownDelta;

/** ToolCancelled is a call that was stopped. When its input was never whole, Input is {} and `_meta` holds [MetaPartialInput]. */
export interface ToolCancelled {
  status: "cancelled";
  input: unknown;
  time: TimeSpan;
  _meta?: { [key: string]: unknown };
}

/** ToolContent is one item of what a tool shows: {type:"text",text}, {type:"image",data,mimeType}, {type:"diff",path,oldText?,newText} or {type:"terminal",terminalId}. An item of another type is kept and encodes back to the same bytes. */
export interface ToolContent {
  type: string;
  text?: string;
  data?: string;
  mimeType?: string;
  path?: string;
  /** OldText is nil for a file that was created. */
  oldText?: string;
  newText?: string;
  terminalId?: string;
}

/** ToolCompleted is a call that succeeded. Output is the text that the model saw, Content is for display, Metadata for machines (exitCode, …). */
export interface ToolCompleted {
  status: "completed";
  input: unknown;
  output: string;
  content?: ToolContent[];
  metadata?: unknown;
  title?: string;
  time: TimeSpan;
  _meta?: { [key: string]: unknown };
}

/** ToolFailed is a call that failed or was refused. Error is the text that the model saw. */
export interface ToolFailed {
  status: "failed";
  input: unknown;
  error: string;
  time: TimeSpan;
  _meta?: { [key: string]: unknown };
}

/** ToolInProgress is a call that waits for permission or runs. Input is any JSON value. */
export interface ToolInProgress {
  status: "in_progress";
  input: unknown;
  title?: string;
  time: TimeSpan;
  _meta?: { [key: string]: unknown };
}

/** ToolPending is a call whose input still streams. PartialInput is JSON text that may be cut anywhere; deltas of type tool_input append to it. */
export interface ToolPending {
  status: "pending";
  partialInput: string;
  _meta?: { [key: string]: unknown };
}

/** A ToolState is where a tool call stands. The union is sealed and closed: an unknown status is an error. A tool walks pending → in_progress → one of completed, failed and cancelled, and may skip steps. */
export type ToolState = ToolCancelled | ToolCompleted | ToolFailed | ToolInProgress | ToolPending;

/** An Envelope is one row of a session's log: `{sessionId, seq, event}`. */
export interface Envelope {
  sessionId: string;
  seq: number;
  event: Event;
}

/** PartType is a part's discriminator (open: an unknown type decodes as [UnknownPart]). */
export type PartType = "text" | "reasoning" | "tool" | "image" | "file" | (string & {});

/** TextElement marks a range of a text, in bytes of its UTF-8 form, that stands for something else. */
export interface TextElement {
  byteRange: [number, number];
  placeholder?: string;
}

/** InputItem is {type:"text",id?,text,elements?}, {type:"image",id?,url|data,mimeType,filename?} or {type:"file",…} with the image's fields. */
export interface InputItem {
  type: PartType;
  id?: string;
  /** Text is a text item's, not empty. */
  text?: string;
  elements?: TextElement[];
  /** Exactly one of URL and Data (base64) is set on images and files. The engine never fetches a URL. */
  url?: string;
  data?: string;
  mimeType?: string;
  filename?: string;
}

export type Input = string | InputItem[];

/** Info names a program and its version. */
export interface Info {
  name: string;
  version?: string;
}

/** InitializeParams are the params of `initialize`. */
export interface InitializeParams {
  protocolVersion: number;
  client?: Info;
}

/** ModelSwitch says what a change of model costs (open). */
export type ModelSwitch = "in-session" | "restart-session" | "unsupported" | (string & {});

/** ThinkingLevel is how much the model may think. The set is closed. */
export type ThinkingLevel = "off" | "low" | "medium" | "high" | "xhigh";

/** Capabilities says what a harness delivers; nothing is advertised that is not delivered. The zero value delivers single turns of text. */
export interface Capabilities {
  /** MultiTurn: several turns of one session share their context. */
  multiTurn: boolean;
  /** SessionResume: [RunConfig.ResumeSessionID] works. */
  sessionResume: boolean;
  modelSwitch: ModelSwitch;
  /** ThinkingLevels that are told apart; empty when the harness has no such setting. */
  thinkingLevels: ThinkingLevel[];
  images: boolean;
  mcpServers: boolean;
  /** PermissionRequests: the harness asks before it acts. */
  permissionRequests: boolean;
  /** Steering: `turn/steer` works. */
  steering: boolean;
  /** Cost: turn.ended carries a cost. */
  cost: boolean;
  /** Files: input items of type file work. */
  files: boolean;
  /** ImageURLs: images and files may be given by url. */
  imageUrls?: boolean;
  /** Unsupported lists the fields of [RunConfig], by their wire names, that the harness cannot honour. A turn that uses one carries a recoverable error event that names it. */
  unsupported?: string[];
}

/** InitializeResult is the result of `initialize`. */
export interface InitializeResult {
  protocolVersion: number;
  /** InstanceID names this process's set of logs: another one on reconnect says that every log is gone. */
  instanceId: string;
  server: Info;
  harnesses: { [name: string]: Capabilities };
}

/** PermissionMode is how freely an agent may act without asking. The set is closed. */
export type PermissionMode = "default" | "plan" | "accept_edits" | "dont_ask" | "bypass_permissions";

/** MCPServer is {type:"stdio",command,args?,env?} or {type:"http"|"sse",url,headers?}. Env and header values are secrets. */
export interface MCPServer {
  type: string;
  command?: string;
  args?: string[];
  env?: { [name: string]: string };
  url?: string;
  headers?: { [name: string]: string };
}

/** RunConfig says how a turn runs: which harness, where, and with what (spec section 4). The zero value of every field but Harness and Cwd means the harness's own default. Fields that a harness cannot honour are reported, never dropped silently. */
export interface RunConfig {
  harness: string;
  /** Cwd is the absolute path of an existing directory. */
  cwd: string;
  model?: string;
  thinkingLevel?: ThinkingLevel;
  permissionMode?: PermissionMode;
  additionalDirectories?: string[];
  systemPromptAppend?: string;
  /** MaxTurns bounds the model's round trips within the turn. */
  maxTurns?: number;
  /** ResumeSessionID and ResumeSessionAt are native ids of the harness. */
  resumeSessionId?: string;
  resumeSessionAt?: string;
  mcpServers?: { [name: string]: MCPServer };
  /** Env is layered over the child's environment, within the limits that the operator sets. Its values are secrets. */
  env?: { [name: string]: string };
  /** APIKey is a secret: it is never logged, echoed or put into an event. */
  apiKey?: string;
  /** DisableTools offers no tool at all to the model. */
  disableTools?: boolean;
  /** PermissionRequests false says that nobody is there to answer: what the mode does not allow is denied at once. Nil means true. */
  permissionRequests?: boolean;
  includeRaw?: boolean;
}

/** TurnStartParams are the params of `turn/start`. Missing ids are minted. */
export interface TurnStartParams {
  sessionId?: string;
  turnId?: string;
  input: Input;
  config: RunConfig;
}

/** TurnStartResult is the ack of `turn/start`. */
export interface TurnStartResult {
  sessionId: string;
  turnId: string;
  /** Deduplicated says that this turn was admitted before and nothing was run. */
  deduplicated?: boolean;
}

/** TurnCancelParams are the params of `turn/cancel`. Without a turn id, whatever turn is active is meant. */
export interface TurnCancelParams {
  sessionId: string;
  turnId?: string;
}

/** CancelOutcome says what `turn/cancel` did. */
export type CancelOutcome = "cancelled" | "unconfirmed" | "no_active_turn" | (string & {});

/** TurnCancelResult is the result of `turn/cancel`. */
export interface TurnCancelResult {
  outcome: CancelOutcome;
  /** TurnID is the turn that was cancelled. */
  turnId?: string;
  /** ActiveTurnID is the turn that is active instead, where one is. */
  activeTurnId?: string;
}

/** TurnSteerParams are the params of `turn/steer`. */
export interface TurnSteerParams {
  sessionId: string;
  turnId: string;
  input: Input;
}

/** AcceptedResult is the result of `turn/steer` and `permission/respond`. */
export interface AcceptedResult {
  accepted: boolean;
}

export type TurnSteerResult = AcceptedResult;

/** PermissionRespondParams are the params of `permission/respond`. */
export interface PermissionRespondParams {
  sessionId: string;
  requestId: string;
  outcome: PermissionOutcome;
}

export type PermissionRespondResult = AcceptedResult;

/** SessionParams are the params of `session/close` and `session/snapshot`. */
export interface SessionParams {
  sessionId: string;
}

export type SessionCloseParams = SessionParams;

/** SessionCloseResult is the result of `session/close`. */
export interface SessionCloseResult {
  closed: boolean;
}

/** Empty is the object without members: {}. */
export type Empty = { [key: string]: unknown };

export type SessionListParams = Empty;

/** SessionInfo is a row of [SessionListResult]. */
export interface SessionInfo {
  sessionId: string;
  harness: string;
  nativeSessionId?: string;
  model?: string;
  cwd: string;
  activeTurnId?: string;
  firstAvailableSeq: number;
  latestSeq: number;
  /** CreatedAt and UpdatedAt are in milliseconds since the Unix epoch. */
  createdAt: number;
  updatedAt: number;
}

/** SessionListResult is the result of `session/list`, oldest session first. */
export interface SessionListResult {
  sessions: SessionInfo[];
}

export type SessionSnapshotParams = SessionParams;

/** SessionSnapshotResult is the result of `session/snapshot`: the fold of the log up to and including Seq. State is the JSON of conversation.State. */
export interface SessionSnapshotResult {
  sessionId: string;
  seq: number;
  state: unknown;
}

/** EventsReplayParams are the params of `events/replay`. FromSeq counts from 1; a Limit of 0 means all that is held. */
export interface EventsReplayParams {
  sessionId: string;
  fromSeq: number;
  limit?: number;
}

/** EventsReplayResult is the result of `events/replay`: the events with seq >= fromSeq, in order. FirstAvailableSeq above fromSeq says that the beginning was evicted. Both numbers are nil while the log holds nothing. */
export interface EventsReplayResult {
  events: Envelope[];
  firstAvailableSeq: number | null;
  latestSeq: number | null;
}

/** EventsSubscribeParams are the params of `events/subscribe`: the sessions whose events this connection gets; nil is the firehose. */
export interface EventsSubscribeParams {
  sessionIds: string[] | null;
}

export type EventsSubscribeResult = Empty;

export type ShutdownParams = Empty;

export type ShutdownResult = Empty;

/** Error is the `error` member of a response. errors.Is compares codes only, so that the Err values below serve as targets. */
export interface Error {
  code: number;
  message: string;
  data?: unknown;
}

/** A request of a client. */
export type Request = {
  jsonrpc: "2.0";
  id: string | number;
  method: "initialize";
  params: InitializeParams;
} | {
  jsonrpc: "2.0";
  id: string | number;
  method: "turn/start";
  params: TurnStartParams;
} | {
  jsonrpc: "2.0";
  id: string | number;
  method: "turn/cancel";
  params: TurnCancelParams;
} | {
  jsonrpc: "2.0";
  id: string | number;
  method: "turn/steer";
  params: TurnSteerParams;
} | {
  jsonrpc: "2.0";
  id: string | number;
  method: "permission/respond";
  params: PermissionRespondParams;
} | {
  jsonrpc: "2.0";
  id: string | number;
  method: "session/close";
  params?: SessionCloseParams;
} | {
  jsonrpc: "2.0";
  id: string | number;
  method: "session/list";
  params?: SessionListParams;
} | {
  jsonrpc: "2.0";
  id: string | number;
  method: "session/snapshot";
  params?: SessionSnapshotParams;
} | {
  jsonrpc: "2.0";
  id: string | number;
  method: "events/replay";
  params: EventsReplayParams;
} | {
  jsonrpc: "2.0";
  id: string | number;
  method: "events/subscribe";
  params: EventsSubscribeParams;
} | {
  jsonrpc: "2.0";
  id: string | number;
  method: "shutdown";
  params?: ShutdownParams;
};

/** The one notification that the server sends. */
export interface Notification {
  jsonrpc: "2.0";
  method: "event";
  params: Envelope;
}
