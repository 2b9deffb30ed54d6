package fakemodel

import "fmt"

// planSteps is the plan that PLAN sets: its steps and their states.
var planSteps = [][2]string{{"First step", "completed"}, {"Second step", "in_progress"}, {"Third step", "pending"}}

// plan returns the calls that set the plan, with the plan or to-do tool that the request offers.
func (p *planner) plan() []toolCall {
	if t, ok := p.conv.find("TodoWrite", "todo_write", "write_todos", "todowrite"); ok {
		return []toolCall{todoCall(t)}
	}
	if t, ok := p.conv.find("TaskCreate"); ok {
		var calls []toolCall
		for _, s := range planSteps {
			calls = append(calls, toolCall{tool: t, args: toJSON(map[string]any{"subject": s[0], "description": s[0]})})
		}
		return calls
	}
	var steps []map[string]any
	for _, s := range planSteps {
		steps = append(steps, map[string]any{"step": s[0], "status": s[1]})
	}
	args := toJSON(map[string]any{"explanation": "fake plan", "plan": steps})
	if p.codeMode() {
		return []toolCall{p.script("update_plan", args)}
	}
	if t, ok := p.conv.find("update_plan"); ok {
		return []toolCall{{tool: t, args: args}}
	}
	return nil
}

// todoCall fills the to-do tool t, each of which names its fields differently.
func todoCall(t tool) toolCall {
	var todos []map[string]any
	for i, s := range planSteps {
		todo := map[string]any{"status": s[1]}
		switch t.name {
		case "TodoWrite":
			todo["content"], todo["activeForm"] = s[0], s[0]
		case "todo_write":
			todo["id"], todo["content"] = fmt.Sprint(i+1), s[0]
		case "write_todos":
			todo["description"] = s[0]
		default:
			todo["id"], todo["content"], todo["priority"] = fmt.Sprint(i+1), s[0], "medium"
		}
		todos = append(todos, todo)
	}
	return toolCall{tool: t, args: toJSON(map[string]any{"todos": todos})}
}
