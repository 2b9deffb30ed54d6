// Package store keeps conversations in SQLite: what each event changed, in one transaction with its number.
package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	_ "modernc.org/sqlite" // the driver

	"agentserver/protocol"
	"agentserver/protocol/conversation"
)

const tables = `
create table if not exists sessions (id text primary key, seq integer not null, harness text, native_id text);
create table if not exists turns (session text, id text, seq integer, status text, stop_reason text, primary key (session, id));
create table if not exists messages (session text, id text, turn text, seq integer, output_index integer, role text, parent text, primary key (session, id));
create table if not exists parts (session text, id text, message text, part_index integer, type text, text text, json text, primary key (session, id));
create table if not exists permissions (session text, id text, turn text, title text, outcome text, primary key (session, id));`

// A Store is used by one goroutine. Create one with Open.
type Store struct {
	db     *sql.DB
	states map[protocol.SessionID]*conversation.State
}

// Open opens a database, making it when it is not there.
func Open(path string) (*Store, error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec(tables); err != nil {
		db.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Store{db, make(map[protocol.SessionID]*conversation.State)}, nil
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Apply stores what an event changes. An event that is delivered again changes nothing. After an error the session's state is ahead of the
// database: close the store, and fill a new one from a snapshot.
func (s *Store) Apply(ctx context.Context, env protocol.Envelope) error {
	st := s.states[env.SessionID]
	if st == nil {
		st = conversation.New(env.SessionID)
		s.states[env.SessionID] = st
	}
	changes := st.Apply(env)
	if len(changes) == 0 {
		return nil // seen, or nothing that is stored
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, c := range changes {
		if err := store(ctx, tx, env.SessionID, c); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, `insert into sessions (id, seq) values (?, ?) on conflict do update set seq = excluded.seq`,
		env.SessionID, env.Seq); err != nil {
		return err
	}
	return tx.Commit()
}

// store writes one change. All but an append is an upsert of the whole thing, so that writing it twice does no harm.
func store(ctx context.Context, tx *sql.Tx, session protocol.SessionID, c conversation.Change) (err error) {
	switch c.Kind {
	case conversation.SessionChanged:
		_, err = tx.ExecContext(ctx, `insert into sessions (id, seq, harness, native_id) values (?, 0, ?, ?)
			on conflict do update set harness = excluded.harness, native_id = excluded.native_id`,
			session, c.Session.Harness, c.Session.NativeSessionID)
	case conversation.TurnChanged:
		_, err = tx.ExecContext(ctx, `insert or replace into turns values (?, ?, ?, ?, ?)`,
			session, c.Turn.ID, c.Turn.Seq, c.Turn.Status, c.Turn.StopReason)
	case conversation.MessageChanged:
		m := c.Message
		_, err = tx.ExecContext(ctx, `insert or replace into messages values (?, ?, ?, ?, ?, ?, ?)`,
			session, m.ID, m.TurnID, m.Seq, m.OutputIndex, m.Role, m.ParentToolCallID)
	case conversation.PartChanged:
		raw, err := json.Marshal(c.Part.Part)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `insert or replace into parts values (?, ?, ?, ?, ?, ?, ?)`,
			session, c.PartID, c.MessageID, c.Part.Index, c.Part.Part.PartType(), text(c.Part.Part), string(raw))
		return err
	case conversation.PartAppended:
		_, err = tx.ExecContext(ctx, `update parts set text = text || ? where session = ? and id = ?`, c.Text, session, c.PartID)
	case conversation.PermissionChanged:
		outcome := "pending"
		if !c.Permission.Pending() {
			outcome = string(c.Permission.Outcome.Outcome)
		}
		_, err = tx.ExecContext(ctx, `insert or replace into permissions values (?, ?, ?, ?, ?)`,
			session, c.Permission.RequestID, c.TurnID, c.Permission.Title, outcome)
	}
	return err
}

// text returns what deltas append to, or what stands for the part in a search.
func text(p protocol.Part) string {
	switch p := p.(type) {
	case *protocol.TextPart:
		return p.Text
	case *protocol.ReasoningPart:
		return p.Text
	case *protocol.ToolPart:
		switch st := p.State.(type) {
		case *protocol.ToolPending:
			return st.PartialInput
		case *protocol.ToolCompleted:
			return st.Output
		case *protocol.ToolFailed:
			return st.Error
		}
	}
	return ""
}

// A Line is a part of a conversation, for display.
type Line struct {
	Role, Type, Text string
}

// Lines returns a session's parts, in the order in which they are shown.
func (s *Store) Lines(ctx context.Context, session protocol.SessionID) ([]Line, error) {
	rows, err := s.db.QueryContext(ctx, `select m.role, p.type, p.text from parts p join messages m on m.session = p.session and m.id = p.message
		where p.session = ? order by m.seq, p.part_index`, session)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Line
	for rows.Next() {
		var l Line
		if err := rows.Scan(&l.Role, &l.Type, &l.Text); err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, rows.Err()
}
