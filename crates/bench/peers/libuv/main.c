/* A canned answer from libuv: one loop, one read buffer shared by all connections.
 *
 * Usage: peer hello|ping ADDRESS:PORT. One answer for each end of a request: the blank line of an
 * HTTP head, or the PING of RESP, inline or as a bulk string. Answers go out by uv_try_write, and
 * a client that does not take them is dropped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define READ_BYTES (64 * 1024)
#define ANSWERS_MAX 64

struct client {
  uv_tcp_t tcp; /* first, so that both have one address */
  size_t matched; /* how many bytes of the end the last read ended with */
};

static const char *end, *answer;
static size_t end_length, answer_length;
static char *answers;
static char shared[READ_BYTES];

static void closed(uv_handle_t *handle) { free(handle); }

static void lend(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer) {
  (void)handle;
  (void)wanted;
  *buffer = uv_buf_init(shared, sizeof shared);
}

/* How many ends there are; both ends repeat only from their first byte. */
static size_t count_ends(struct client *client, const char *bytes, size_t length) {
  size_t found = 0, matched = client->matched;
  for (size_t at = 0; at < length; at++) {
    char byte = bytes[at];
    if (byte == end[matched]) {
      matched++;
    } else {
      matched = byte == end[0];
    }
    if (matched == end_length) {
      found++;
      matched = 0;
    }
  }
  client->matched = matched;
  return found;
}

static void arrived(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer) {
  if (length < 0) {
    uv_close((uv_handle_t *)stream, closed);
    return;
  }
  size_t ends = count_ends((struct client *)stream, buffer->base, (size_t)length);
  while (ends > 0) {
    size_t batch = ends < ANSWERS_MAX ? ends : ANSWERS_MAX;
    uv_buf_t out = uv_buf_init(answers, (unsigned)(batch * answer_length));
    if (uv_try_write(stream, &out, 1) != (int)out.len) {
      uv_close((uv_handle_t *)stream, closed);
      return;
    }
    ends -= batch;
  }
}

static void connected(uv_stream_t *listener, int status) {
  struct client *client = calloc(1, sizeof *client);
  if (status < 0 || client == NULL) {
    free(client);
    return;
  }
  uv_tcp_init(listener->loop, &client->tcp);
  if (uv_accept(listener, (uv_stream_t *)client) != 0) {
    uv_close((uv_handle_t *)client, closed);
    return;
  }
  uv_tcp_nodelay(&client->tcp, 1);
  uv_read_start((uv_stream_t *)client, lend, arrived);
}

int main(int count, char **words) {
  char *colon = count == 3 ? strrchr(words[2], ':') : NULL;
  if (colon == NULL) {
    fprintf(stderr, "usage: peer hello|ping ADDRESS:PORT\n");
    return 2;
  }
  *colon = 0;
  int ping = strcmp(words[1], "ping") == 0;
  end = ping ? "PING\r\n" : "\r\n\r\n";
  answer = ping ? "+PONG\r\n"
                : "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\npong";
  end_length = strlen(end);
  answer_length = strlen(answer);
  answers = malloc(ANSWERS_MAX * answer_length);
  if (answers == NULL) return 1;
  for (int n = 0; n < ANSWERS_MAX; n++) memcpy(answers + n * answer_length, answer, answer_length);

  struct sockaddr_in address;
  uv_tcp_t listener;
  uv_loop_t *loop = uv_default_loop();
  uv_tcp_init(loop, &listener);
  int failed = uv_ip4_addr(words[2], atoi(colon + 1), &address);
  if (!failed) failed = uv_tcp_bind(&listener, (const struct sockaddr *)&address, 0);
  if (!failed) failed = uv_listen((uv_stream_t *)&listener, 4096, connected);
  if (failed) {
    fprintf(stderr, "%s\n", uv_strerror(failed));
    return 1;
  }
  return uv_run(loop, UV_RUN_DEFAULT);
}
