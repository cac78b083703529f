// Targets on stdin, one a line; for each the paths that Go's readers see, as a line of JSON.
package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"strings"
)

func main() {
	mux := http.NewServeMux()
	var routed string
	mux.HandleFunc("/private/", func(http.ResponseWriter, *http.Request) { routed = "/private/" })
	mux.HandleFunc("/private", func(http.ResponseWriter, *http.Request) { routed = "/private" })
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) { routed = "/" })
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		seen := map[string]string{}
		target, err := url.ParseRequestURI(in.Text())
		if err == nil {
			seen["net/url"] = target.Path
			seen["path.Clean"] = path.Clean(target.Path)
			seen["path.Clean, escaped"] = path.Clean(target.EscapedPath())
			seen["url.JoinPath"] = target.JoinPath().Path
			head := "GET " + in.Text() + " HTTP/1.1\r\nHost: h\r\n\r\n"
			request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
			if err == nil {
				routed = ""
				answer := httptest.NewRecorder()
				mux.ServeHTTP(answer, request)
				seen["ServeMux"] = routed
				seen["ServeMux, redirect"] = answer.Header().Get("Location")
			}
		}
		out.Encode(seen)
	}
}
