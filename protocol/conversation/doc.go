// Package conversation folds a session's events into its state: what a view shows and what a database stores.
//
//	st := conversation.New("")
//	for env := range stream {
//		for _, c := range st.Apply(env) {
//			switch c.Kind {
//			case conversation.PartChanged:  // store c.Part under its id
//			case conversation.PartAppended: // append c.Text to what is shown of c.PartID
//			}
//		}
//		draw(st.Snapshot())
//	}
//
// # The rules
//
//	| | |
//	|---|---|
//	| Redelivery | an event whose seq was seen changes nothing; without seq (see [State.ApplyEvent]) every upsert is idempotent |
//	| Parts | an upsert by part id, at the address of the part's first event, also after its message or its turn has ended |
//	| Deltas | append to an open part; a snapshot replaces what they built |
//	| Messages | a part without its message opens one; a message that begins closes the one before it in its turn |
//	| Turns | a turn that ends closes its open message, its open parts and its pending permissions; an open tool becomes cancelled, what was streamed of its input is kept under `_meta` as [protocol.MetaPartialInput] |
//	| Compactions | stand where their first event stood |
//	| Totals | sum what each turn.ended reports; the context gauge is apart from them |
//	| Unknown | events of an unknown type are kept in order |
//	| Gaps | numbers that never came are listed; whatever refers to them is opened as it is met |
//
// An event of type raw is not kept: it promises nothing. Of session.notice only the latest is kept, until its turn ends; one of no turn,
// until any does.
//
// # Sharing and cost
//
// A [State] belongs to one goroutine. [State.Snapshot] returns an immutable [Snapshot] that may be shared with any other, now and later; the two
// have all but the last changes in common. Applying an event and taking a snapshot cost the same after 100 000 events as after ten: lists are
// tries, the text of a streaming part grows in place and a snapshot sees the part of it that was there.
//
// # The JSON form
//
// [Snapshot.MarshalJSON] writes ConversationState, the state in the result of `session/snapshot`; [Parse] reads it. Members that are marked with
// "?" are left out when empty. Instants are epoch milliseconds. A seq member is the number of the event that made the thing: sort by it, never by an instant.
//
//	ConversationState
//	  version        1
//	  sessionId, seq the session, and the last event that is folded in
//	  gaps?          [{from,to}] numbers that were not seen, inclusive
//	  session?       {harness,nativeSessionId,model?,resumed?,createdAt,ended?:{reason,at}}, from session.created and session.ended
//	  activity       idle | thinking | generating | tool_running | waiting_for_permission | failed
//	  activeTurnId?  the turn that runs
//	  timeline       [{type:"message",message} | {type:"compaction",compaction}] in the order of their first events
//	  turns          [Turn], in the order of their first events
//	  permissions    [Permission], in the order of their first events
//	  usage?         {turnId,used,size?,cost?,at}, the context gauge
//	  totals         {turns,tokens,costs?:[Cost]}: turns that ended, the sum of their tokens, the sum of their costs by currency
//	  errors?        [{seq,turnId?,at,category,message,recoverable,stack?}]
//	  notice?        {seq,turnId?,at,kind,message,progress?}, the latest, until a turn ends
//	  unknown?       [{seq,event}]: events, and deltas, of types this build does not know, as they were sent
//	Message
//	  messageId, turnId, seq, outputIndex, role, parentToolCallId?, model?, startedAt, endedAt?, open?, _meta?
//	  parts          [{partIndex,seq,part}], sorted by partIndex; part is a Part of the protocol
//	Compaction
//	  compactionId, turnId, seq, at, status, trigger?, preTokens?, postTokens?, summary?, abstractsIds?
//	Turn
//	  turnId, seq, status (running | ended | lost), origin? ("agent"), startedAt, endedAt?, stopReason?, finishReason?, tokens?, cost?, error?, _meta?, endMeta?
//	Permission
//	  requestId, turnId, seq, at, title, toolCall?, options, outcome?, resolvedAt?; without outcome it is pending
package conversation
