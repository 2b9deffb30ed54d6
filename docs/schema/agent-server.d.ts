// Generated from agent-server.schema.json. Do not edit.
// The wire of agent-server, protocol version 2. Members and values that are not described here are allowed and must be kept.

/** ErrorCategory sorts the errors of events, for machines (open). */
export type ErrorCategory = "auth" | "rate_limit" | "usage_limit" | "context_limit" | "network" | "abort" | "invalid_request" | "process_exit" | "internal" | (string & {});

/** ErrorEvent reports an error. `recoverable` says that the turn goes on; the end of a turn is always `TurnEnded`. */
export interface ErrorEvent {
  type: "error";
  sessionId?: string;
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
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
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  messageId: string;
}

/** MessagePart is a full snapshot of a part: an upsert by the part's id. It replaces what deltas built. */
export interface MessagePart {
  type: "message.part";
  sessionId: string;
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
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
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
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
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  messageId: string;
  /** `outputIndex` orders the messages of a turn; the user echo is 0. */
  outputIndex: number;
  role: Role;
  /** `parentToolCallId` is the tool call under which a sub-agent speaks. */
  parentToolCallId?: string;
  model?: string;
}

/** ToolKind sorts tools for display (open). */
export type ToolKind = "read" | "edit" | "delete" | "move" | "search" | "execute" | "think" | "fetch" | "switch_mode" | "task" | "other" | (string & {});

/** Location is a place that a tool works on. `line` counts from 1; 0 means the whole file. */
export interface Location {
  path: string;
  line?: number;
}

/** PermissionTool describes the call that wants to run. `toolCallId` is the `ToolPart.toolCallId` of the part that shows it, where there is one. */
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

/** PermissionRequested asks whether a tool may run. It is answered with `permission/respond` and resolved by exactly one `PermissionResolved` before its turn ends. */
export interface PermissionRequested {
  type: "permission.requested";
  sessionId: string;
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
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

/** PermissionOutcome is {outcome:"selected", optionId, updatedInput?} or {outcome:"cancelled"}. `updatedInput` is what runs in place of the requested input; the call is denied where the harness cannot express that. */
export interface PermissionOutcome {
  outcome: OutcomeKind;
  optionId?: string;
  updatedInput?: unknown;
}

/** PermissionResolved says how a request was settled, by whomever: a client, a standing rule that came to be, a timeout, the turn's end. */
export interface PermissionResolved {
  type: "permission.resolved";
  sessionId: string;
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  requestId: string;
  outcome: PermissionOutcome;
}

/** Raw is a message of the agent as it came; only with `RunConfig.includeRaw`, and with no promise of stability. */
export interface Raw {
  type: "raw";
  sessionId: string;
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
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

/** SessionCompaction says that the harness shortens, or shortened, its context. It is an upsert by `compactionId`; the first one fixes its place. */
export interface SessionCompaction {
  type: "session.compaction";
  sessionId: string;
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  compactionId: string;
  status: CompactionStatus;
  trigger?: CompactionTrigger;
  /** `preTokens` and `postTokens` are the context's size before and after. */
  preTokens?: number;
  postTokens?: number;
  summary?: string;
  /** `abstractsIds` are the ids of the messages that the summary stands for. */
  abstractsIds?: string[];
}

/** SessionCreated reports the session's native id. It comes once a turn, when the harness first reports its id: normally mid-turn, after the echo. */
export interface SessionCreated {
  type: "session.created";
  sessionId: string;
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  nativeSessionId: string;
  harness: string;
  model?: string;
  /** `resumed` is present only when the turn asked to resume; false says that the context was lost. */
  resumed?: boolean;
}

/** EndReason says why a session ended (open). */
export type EndReason = "idle" | "replaced" | "released" | "shutdown" | (string & {});

/** SessionEnded is the last event of a session's log. */
export interface SessionEnded {
  type: "session.ended";
  sessionId: string;
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  reason: EndReason;
}

/** NoticeKind sorts notices (open). */
export type NoticeKind = "provisioning" | "retry" | "rate_limit" | "warning" | (string & {});

/** Progress is how far something has come. `total` is absent or 0 when it is not known; `unit` is "bytes", "attempts", …. */
export interface Progress {
  done: number;
  total: number;
  unit: string;
}

/** SessionNotice is something that a person may want to see while waiting; it is never needed to follow the conversation. */
export interface SessionNotice {
  type: "session.notice";
  sessionId: string;
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId?: string;
  kind: NoticeKind;
  message: string;
  progress?: Progress;
}

/** Cost is an amount of money: {amount, currency}. */
export interface Cost {
  amount: number;
  /** `currency` is an ISO 4217 code; "USD" when absent. */
  currency?: string;
}

/** SessionUsage is the context gauge: how much of the model's window the conversation fills. It is not the bill; see `TurnEnded.tokens`. */
export interface SessionUsage {
  type: "session.usage";
  sessionId: string;
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  /** `used` is in tokens. */
  used: number;
  /** `size` is the window, in tokens; absent or 0 when it is not known. */
  size?: number;
  /** `cost` is the session's so far, where the harness reports it. */
  cost?: Cost;
}

/** StopReason says why a turn ended (open). */
export type StopReason = "end_turn" | "max_tokens" | "max_turn_requests" | "refusal" | "cancelled" | "error" | (string & {});

/** CacheTokens counts tokens read from and written to the provider's prompt cache; the ephemeral counts are parts of `write`. */
export interface CacheTokens {
  read: number;
  write: number;
  writeEphemeral5m?: number;
  writeEphemeral1h?: number;
}

/** Tokens counts a turn's tokens. Billed input is `input` + `cache.read` + `cache.write`; `reasoning` is part of `output`. */
export interface Tokens {
  /** `input` excludes cached tokens. */
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
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
  stopReason: StopReason;
  /** `finishReason` is the provider's own word. */
  finishReason?: string;
  /** `tokens` is what this turn used, not a running total. */
  tokens?: Tokens;
  /** `cost` is what this turn cost, not a running total. */
  cost?: Cost;
  /** `error` is present when `stopReason` is "error". */
  error?: TurnError;
}

/** TurnStarted opens a turn. Its `_meta` holds "agent-server/origin" when the agent began the turn by itself. */
export interface TurnStarted {
  type: "turn.started";
  sessionId: string;
  /** `timestamp` is when the engine made the event, in milliseconds since the Unix epoch. Never take order from it. */
  timestamp: number;
  _meta?: { [key: string]: unknown };
  turnId: string;
}

/** An event of a type that is not described here: keep it in its place. */
export interface UnknownEvent {
  type: string;
}

/** An Event is one entry of a session's history. Events of other types may come (`UnknownEvent`): have a default for them. */
export type Event = ErrorEvent | MessageEnded | MessagePart | MessagePartDelta | MessageStarted | PermissionRequested | PermissionResolved | Raw | SessionCompaction | SessionCreated | SessionEnded | SessionNotice | SessionUsage | TurnEnded | TurnStarted;

/** FilePart is a file: exactly one of `data` (base64) and `url` is set. */
export interface FilePart {
  type: "file";
  id: string;
  sessionId: string;
  messageId: string;
  /** `parentToolCallId` is the tool call under which a sub-agent made the part. */
  parentToolCallId?: string;
  _meta?: { [key: string]: unknown };
  data?: string;
  url?: string;
  mimeType: string;
  filename?: string;
}

/** ImagePart is a picture: exactly one of `data` (base64) and `url` is set. */
export interface ImagePart {
  type: "image";
  id: string;
  sessionId: string;
  messageId: string;
  /** `parentToolCallId` is the tool call under which a sub-agent made the part. */
  parentToolCallId?: string;
  _meta?: { [key: string]: unknown };
  data?: string;
  url?: string;
  mimeType: string;
}

/** PartState says whether a text or reasoning part still grows. It is absent when the sender did not say. */
export type PartState = "streaming" | "done" | (string & {});

/** TimeSpan is when something began and ended, in milliseconds since the Unix epoch. `end` is absent while it goes on. */
export interface TimeSpan {
  start: number;
  end?: number;
}

/** ReasoningPart is a thought of the model. `providerMetadata` is {"redacted":true} for a redacted one. */
export interface ReasoningPart {
  type: "reasoning";
  id: string;
  sessionId: string;
  messageId: string;
  /** `parentToolCallId` is the tool call under which a sub-agent made the part. */
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
  /** `parentToolCallId` is the tool call under which a sub-agent made the part. */
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
  /** `parentToolCallId` is the tool call under which a sub-agent made the part. */
  parentToolCallId?: string;
  _meta?: { [key: string]: unknown };
  /** `toolCallId` is the provider's id of the call. */
  toolCallId: string;
  /** `toolName` is the provider's own name. */
  toolName: string;
  kind?: ToolKind;
  title?: string;
  locations?: Location[];
  /** `subagent` is present when the call runs a sub-agent; the kind is then "task". */
  subagent?: Subagent;
  state: ToolState;
}

/** A part of a type that is not described here: keep it in its place. */
export interface UnknownPart {
  type: string;
}

/** A Part is a piece of a message. Parts of other types may come (`UnknownPart`): have a default for them. */
export type Part = FilePart | ImagePart | ReasoningPart | TextPart | ToolPart;

/** ReasoningDelta appends to a `ReasoningPart`. */
export interface ReasoningDelta {
  type: "reasoning";
  text: string;
}

/** TextDelta appends to a `TextPart`. */
export interface TextDelta {
  type: "text";
  text: string;
}

/** ToolInputDelta appends `input`, a piece of JSON text, to the partialInput of a pending `ToolPart`. */
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

/** A Delta is what a `MessagePartDelta` appends. Deltas of other types may come (`UnknownDelta`): leave them out. */
export type Delta = ReasoningDelta | TextDelta | ToolInputDelta;

/** ToolCancelled is a call that was stopped. When its input was never whole, `input` is {} and `_meta` holds "agent-server/partialInput". */
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
  /** `oldText` is absent for a file that was created. */
  oldText?: string;
  newText?: string;
  terminalId?: string;
}

/** ToolCompleted is a call that succeeded. `output` is the text that the model saw, `content` is for display, `metadata` for machines (exitCode, …). */
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

/** ToolFailed is a call that failed or was refused. `error` is the text that the model saw. */
export interface ToolFailed {
  status: "failed";
  input: unknown;
  error: string;
  time: TimeSpan;
  _meta?: { [key: string]: unknown };
}

/** ToolInProgress is a call that waits for permission or runs. `input` is any JSON value. */
export interface ToolInProgress {
  status: "in_progress";
  input: unknown;
  title?: string;
  time: TimeSpan;
  _meta?: { [key: string]: unknown };
}

/** ToolPending is a call whose input still streams. `partialInput` is JSON text that may be cut anywhere; deltas of type tool_input append to it. */
export interface ToolPending {
  status: "pending";
  partialInput: string;
  _meta?: { [key: string]: unknown };
}

/** A ToolState is where a tool call stands. There are no others. A tool walks pending → in_progress → one of completed, failed and cancelled, and may skip steps. */
export type ToolState = ToolCancelled | ToolCompleted | ToolFailed | ToolInProgress | ToolPending;

/** A row of a session's log. `seq` numbers the session's events from 1, without holes. */
export interface Envelope {
  sessionId: string;
  seq: number;
  event: Event;
}

/** PartType is a part's discriminator (open). */
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
  /** `text` is a text item's, not empty. */
  text?: string;
  elements?: TextElement[];
  /** Exactly one of `url` and `data` (base64) is set on images and files. The engine never fetches a `url`. */
  url?: string;
  data?: string;
  mimeType?: string;
  filename?: string;
}

export type Input = string | InputItem[];

/** A Gap is a range of numbers, both inclusive, that were not seen. */
export interface ConversationGap {
  from: number;
  to: number;
}

/** SessionEnd says why a session ended. */
export interface ConversationSessionEnd {
  reason: EndReason;
  at: number;
}

/** Session is what session.created and session.ended say. */
export interface ConversationSession {
  harness: string;
  nativeSessionId: string;
  model?: string;
  /** `resumed` is the last answer to a turn that asked to resume; false says that the context was lost. */
  resumed?: boolean;
  createdAt: number;
  /** `ended` is set while the session has ended; the next turn clears it. */
  ended?: ConversationSessionEnd;
}

/** Activity says what a session does. */
export type Activity = "idle" | "thinking" | "generating" | "tool_running" | "waiting_for_permission" | "failed" | (string & {});

/** A part of a message and where it stands. Its text is what snapshot and deltas have made of it so far. */
export interface ConversationPart {
  partIndex: number;
  seq: number;
  part: Part;
}

/** ConversationMessage is a message with its parts. */
export interface ConversationMessage {
  messageId: string;
  turnId: string;
  seq: number;
  outputIndex: number;
  role: Role;
  /** `parentToolCallId` is the tool call under which a sub-agent speaks. */
  parentToolCallId?: string;
  model?: string;
  /** `startedAt` is 0 when the beginning was not seen. */
  startedAt: number;
  endedAt?: number;
  /** `open` says that more parts may come. */
  open?: boolean;
  _meta?: { [key: string]: unknown };
  /** `parts` are sorted by partIndex. */
  parts: ConversationPart[];
}

/** A Compaction is a shortening of the agent's context. */
export interface ConversationCompaction {
  compactionId: string;
  turnId: string;
  seq: number;
  at: number;
  status: CompactionStatus;
  trigger?: CompactionTrigger;
  preTokens?: number;
  postTokens?: number;
  summary?: string;
  abstractsIds?: string[];
}

/** A line of the timeline. */
export type ConversationEntry = {
  type: "message";
  message: ConversationMessage;
} | {
  type: "compaction";
  compaction: ConversationCompaction;
};

/** TurnStatus says where a turn stands. */
export type TurnStatus = "running" | "ended" | "lost" | (string & {});

/** A Turn is one run of the agent. */
export interface ConversationTurn {
  turnId: string;
  seq: number;
  status: TurnStatus;
  /** `origin` is "agent" when the agent began the turn by itself. */
  origin?: string;
  /** `startedAt` is 0 when the beginning was not seen. */
  startedAt: number;
  endedAt?: number;
  stopReason?: StopReason;
  finishReason?: string;
  tokens?: Tokens;
  cost?: Cost;
  error?: TurnError;
  /** `_meta` is the `_meta` of turn.started, `endMeta` that of turn.ended. */
  _meta?: { [key: string]: unknown };
  endMeta?: { [key: string]: unknown };
}

/** A Permission is a permission request and, once it is settled, its outcome. */
export interface ConversationPermission {
  requestId: string;
  turnId: string;
  seq: number;
  at: number;
  title: string;
  toolCall?: PermissionTool;
  options: PermissionOption[];
  /** `outcome` is absent while the request is pending. */
  outcome?: PermissionOutcome;
  resolvedAt?: number;
}

/** Usage is the context gauge. */
export interface ConversationUsage {
  turnId: string;
  used: number;
  size?: number;
  cost?: Cost;
  at: number;
}

/** Totals sum what turns reported at their end. */
export interface ConversationTotals {
  /** `turns` counts those that ended. */
  turns: number;
  tokens: Tokens;
  /** `costs` holds one sum for each currency, in the order in which they came up. */
  costs?: Cost[];
}

/** An Error is an error event. */
export interface ConversationError {
  seq: number;
  turnId?: string;
  at: number;
  category: ErrorCategory;
  message: string;
  recoverable: boolean;
  stack?: string;
}

/** A Notice is a session.notice. */
export interface ConversationNotice {
  seq: number;
  turnId?: string;
  at: number;
  kind: NoticeKind;
  message: string;
  progress?: Progress;
}

/** ConversationUnknown is an event of a type that the server does not know, or a message.part.delta with such a delta. */
export interface ConversationUnknown {
  seq: number;
  event: Event;
}

/** ConversationState is a session's conversation after the event with the number seq. A member with the name seq is the number of the event that made the thing: sort by it, never by an instant. */
export interface ConversationState {
  /** `version` is 1. Members are added within a version, never changed or removed. */
  version: number;
  sessionId: string;
  /** `seq` is the number of the last event that is folded in: go on with the next one. */
  seq: number;
  /** `gaps` are the numbers that were not seen. */
  gaps?: ConversationGap[];
  session?: ConversationSession;
  /** `activity` is what the session does now. */
  activity: Activity;
  /** `activeTurnId` is the turn that runs, if one does. */
  activeTurnId?: string;
  /** `timeline` holds messages and compactions, in the order of their first events. */
  timeline: ConversationEntry[];
  /** `turns` are in the order of their first events. */
  turns: ConversationTurn[];
  /** `permissions` are in the order of their first events; those without outcome wait for an answer. */
  permissions: ConversationPermission[];
  usage?: ConversationUsage;
  totals: ConversationTotals;
  errors?: ConversationError[];
  /** `notice` is the latest, until its turn ends. */
  notice?: ConversationNotice;
  /** `unknown` holds the events, and deltas, of types that the server does not know, as they were sent. */
  unknown?: ConversationUnknown[];
}

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

/** Capabilities says what a harness delivers; nothing is advertised that is not delivered. */
export interface Capabilities {
  /** `multiTurn`: several turns of one session share their context. */
  multiTurn: boolean;
  /** `sessionResume`: `RunConfig.resumeSessionId` works. */
  sessionResume: boolean;
  modelSwitch: ModelSwitch;
  /** `thinkingLevels` that are told apart; empty when the harness has no such setting. */
  thinkingLevels: ThinkingLevel[];
  images: boolean;
  mcpServers: boolean;
  /** `permissionRequests`: the harness asks before it acts. */
  permissionRequests: boolean;
  /** `steering`: `turn/steer` works. */
  steering: boolean;
  /** `cost`: turn.ended carries a cost. */
  cost: boolean;
  /** `files`: input items of type file work. */
  files: boolean;
  /** `imageUrls`: images and files may be given by url. */
  imageUrls?: boolean;
  /** `unsupported` lists the fields of `RunConfig`, by their wire names, that the harness cannot honour. A turn that uses one carries a recoverable error event that names it. */
  unsupported?: string[];
}

/** InitializeResult is the result of `initialize`. */
export interface InitializeResult {
  protocolVersion: number;
  /** `instanceId` names this process's set of logs: another one on reconnect says that every log is gone. */
  instanceId: string;
  server: Info;
  harnesses: { [name: string]: Capabilities };
}

/** PermissionMode is how freely an agent may act without asking. The set is closed. */
export type PermissionMode = "default" | "plan" | "accept_edits" | "dont_ask" | "bypass_permissions";

/** MCPServer is {type:"stdio",command,args?,env?} or {type:"http"|"sse",url,headers?}. `env` and header values are secrets. */
export interface MCPServer {
  type: string;
  command?: string;
  args?: string[];
  env?: { [name: string]: string };
  url?: string;
  headers?: { [name: string]: string };
}

/** RunConfig says how a turn runs: which harness, where, and with what. Without a member, but for `harness` and `cwd`, the harness's own default holds. Fields that a harness cannot honour are reported, never dropped silently. */
export interface RunConfig {
  harness: string;
  /** `cwd` is the absolute path of an existing directory. */
  cwd: string;
  model?: string;
  thinkingLevel?: ThinkingLevel;
  permissionMode?: PermissionMode;
  additionalDirectories?: string[];
  systemPromptAppend?: string;
  /** `maxTurns` bounds the model's round trips within the turn. */
  maxTurns?: number;
  /** `resumeSessionId` and `resumeSessionAt` are native ids of the harness. */
  resumeSessionId?: string;
  resumeSessionAt?: string;
  mcpServers?: { [name: string]: MCPServer };
  /** `env` is layered over the child's environment, within the limits that the operator sets. Its values are secrets. */
  env?: { [name: string]: string };
  /** `apiKey` is a secret: it is never logged, echoed or put into an event. */
  apiKey?: string;
  /** `disableTools` offers no tool at all to the model. */
  disableTools?: boolean;
  /** `permissionRequests` false says that nobody is there to answer: what the mode does not allow is denied at once. It is true when absent. */
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
  /** `deduplicated` says that this turn was admitted before and nothing was run. */
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
  /** `turnId` is the turn that was cancelled. */
  turnId?: string;
  /** `activeTurnId` is the turn that is active instead, where one is. */
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

/** SessionInfo is a row of `SessionListResult`. */
export interface SessionInfo {
  sessionId: string;
  harness: string;
  nativeSessionId?: string;
  model?: string;
  cwd: string;
  activeTurnId?: string;
  firstAvailableSeq: number;
  latestSeq: number;
  /** `createdAt` and `updatedAt` are in milliseconds since the Unix epoch. */
  createdAt: number;
  updatedAt: number;
}

/** SessionListResult is the result of `session/list`, oldest session first. */
export interface SessionListResult {
  sessions: SessionInfo[];
}

export type SessionSnapshotParams = SessionParams;

/** SessionSnapshotResult is the result of `session/snapshot`: the fold of the log up to and including `seq`. */
export interface SessionSnapshotResult {
  sessionId: string;
  seq: number;
  state: ConversationState;
}

/** EventsReplayParams are the params of `events/replay`. `fromSeq` counts from 1; a `limit` of 0 means all that is held. */
export interface EventsReplayParams {
  sessionId: string;
  fromSeq: number;
  limit?: number;
}

/** EventsReplayResult is the result of `events/replay`: the events with seq >= fromSeq, in order. `firstAvailableSeq` above fromSeq says that the beginning was evicted. Both numbers are null while the log holds nothing. */
export interface EventsReplayResult {
  events: Envelope[];
  firstAvailableSeq: number | null;
  latestSeq: number | null;
}

/** EventsSubscribeParams are the params of `events/subscribe`: the sessions whose events this connection gets; null means all sessions. */
export interface EventsSubscribeParams {
  sessionIds: string[] | null;
}

export type EventsSubscribeResult = Empty;

export type ShutdownParams = Empty;

export type ShutdownResult = Empty;

/** Error is the `error` member of a response. */
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

/** What each method takes and answers. */
export interface Methods {
  "initialize": { params: InitializeParams; result: InitializeResult };
  "turn/start": { params: TurnStartParams; result: TurnStartResult };
  "turn/cancel": { params: TurnCancelParams; result: TurnCancelResult };
  "turn/steer": { params: TurnSteerParams; result: TurnSteerResult };
  "permission/respond": { params: PermissionRespondParams; result: PermissionRespondResult };
  "session/close": { params: SessionCloseParams; result: SessionCloseResult };
  "session/list": { params: SessionListParams; result: SessionListResult };
  "session/snapshot": { params: SessionSnapshotParams; result: SessionSnapshotResult };
  "events/replay": { params: EventsReplayParams; result: EventsReplayResult };
  "events/subscribe": { params: EventsSubscribeParams; result: EventsSubscribeResult };
  "shutdown": { params: ShutdownParams; result: ShutdownResult };
}
