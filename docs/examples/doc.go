// Package examples holds the clients in JavaScript, and tests that hold them and the code in the guides to what the server does. It has no Go API.
package examples
