// A reverse proxy of Go's net/http/httputil: HTTP/2 in the clear to HTTP/1.1.
package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

func main() {
	upstream := &url.URL{Scheme: "http", Host: os.Args[1]}
	proxy := &httputil.ReverseProxy{Rewrite: func(request *httputil.ProxyRequest) {
		request.SetURL(upstream)
		request.Out.Host = request.In.Host
	}}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stderr, "listening", listener.Addr().(*net.TCPAddr).Port)
	server := &http.Server{Handler: proxy, Protocols: protocols}
	panic(server.Serve(listener))
}
