// A server of HTTP/2 in the clear that responds with what it has read, in parts that control
// characters separate.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

func handle(w http.ResponseWriter, r *http.Request) {
	content, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s\x1e", r.Method, r.RequestURI, r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			fmt.Fprintf(w, "%s: %s\x1e", strings.ToLower(name), value)
		}
	}
	fmt.Fprintf(w, "\x1d%s\x1d", content)
	for name, values := range r.Trailer {
		for _, value := range values {
			fmt.Fprintf(w, "%s: %s\x1d", strings.ToLower(name), value)
		}
	}
}

func main() {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stderr, "listening", listener.Addr().(*net.TCPAddr).Port)
	server := &http.Server{Handler: http.HandlerFunc(handle), Protocols: protocols}
	panic(server.Serve(listener))
}
