/* A load generator for HTTP/1.1: posts bodies at a constant rate over connections that stay open.

   load PORT PATH BODIES RATE SECONDS CONNECTIONS TIMEOUT ANSWERS [HEADER...]

   BODIES has a body per line. The i-th request is due at i/RATE seconds whatever the server does
   (an open loop; RATE 0: as soon as a connection is free), and its latency counts from that moment.
   A request that gets no answer within TIMEOUT seconds, or no free connection, is a failure.
   ANSWERS is a file for the bodies of the answers with status 200, a line each, or "-" for none.
   Prints JSON: counts by status, failures by kind, and percentiles of the latency in seconds. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { CLOSED, IDLE, CONNECTING, WAITING };
enum { REFUSED, BROKEN, TIMEOUT_, UNSENT, KINDS };
static const char *KIND[KINDS] = {"refused", "broken", "timeout", "unsent"};

typedef struct {
    char *text;
    size_t size;
} Request;

typedef struct {
    int fd, state;
    double due, began;
    const Request *request;
    size_t written, filled, room;
    char *buffer;
} Connection;

typedef struct {
    float *values;
    size_t count, room;
} Times;

static int poller, port;
static double timeout;
static long status_count[600], failed[KINDS];
static Times answered, busy, sent_at;
static FILE *answers;
static Connection *all;
static int *idle, idle_count, connections;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void add(Times *times, double value) {
    if (times->count == times->room) {
        times->room = times->room ? 2 * times->room : 1 << 16;
        times->values = realloc(times->values, times->room * sizeof(float));
        if (!times->values) exit(3);
    }
    times->values[times->count++] = (float)value;
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, Times *times) {
    static const double at[] = {0.5, 0.9, 0.99, 0.999};
    static const char *label[] = {"p50", "p90", "p99", "p999"};
    qsort(times->values, times->count, sizeof(float), ascending);
    printf(",\n \"%s\": {\"count\": %zu", name, times->count);
    for (int i = 0; times->count && i < 4; i++) {
        size_t rank = (size_t)(at[i] * times->count);
        printf(", \"%s\": %.6f", label[i], times->values[rank < times->count ? rank : times->count - 1]);
    }
    if (times->count) printf(", \"max\": %.6f", times->values[times->count - 1]);
    printf("}");
}

static void release(Connection *c, int state) {
    if (state == CLOSED && c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
    c->state = state;
    c->filled = 0;
    idle[idle_count++] = (int)(c - all);
}

static void fail(Connection *c, int kind) {
    failed[kind]++;
    release(c, CLOSED);
}

static void push(Connection *c) {
    while (c->written < c->request->size) {
        ssize_t n = write(c->fd, c->request->text + c->written, c->request->size - c->written);
        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR) fail(c, BROKEN);
            return;
        }
        c->written += (size_t)n;
    }
}

static void begin(Connection *c, const Request *request, double due, double at) {
    c->request = request;
    c->due = due;
    c->began = at;
    c->written = c->filled = 0;
    if (c->fd >= 0) {
        c->state = WAITING;
        push(c);
        return;
    }
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1;
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
    c->state = CONNECTING;
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS) fail(c, REFUSED);
}

static void finish(Connection *c, int status, const char *body, size_t size, int stays) {
    double end = now();
    if (status > 0 && status < 600) status_count[status]++;
    add(status == 200 ? &answered : &busy, end - c->due);
    add(&sent_at, end - c->began);
    if (answers && status == 200) {
        fwrite(body, 1, size, answers);
        fputc('\n', answers);
    }
    release(c, stays ? IDLE : CLOSED);
}

static void parse(Connection *c) {
    c->buffer[c->filled] = 0;
    char *end = strstr(c->buffer, "\r\n\r\n");
    if (!end) return;
    char *length = strcasestr(c->buffer, "\r\ncontent-length:");
    char *closes = strcasestr(c->buffer, "\r\nconnection: close");
    size_t head = (size_t)(end + 4 - c->buffer);
    size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    if (c->filled < head + body) return;
    finish(c, atoi(c->buffer + 9), c->buffer + head, body, !(closes && closes < end));
}

static void pull(Connection *c) {
    while (c->state == WAITING) {
        if (c->room - c->filled < 4096) {
            c->room = 2 * c->room + 8192;
            c->buffer = realloc(c->buffer, c->room);
            if (!c->buffer) exit(3);
        }
        ssize_t n = read(c->fd, c->buffer + c->filled, c->room - c->filled - 1);
        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR) fail(c, BROKEN);
            return;
        }
        if (n == 0) {
            fail(c, BROKEN);
            return;
        }
        c->filled += (size_t)n;
        parse(c);
    }
}

static void handle(Connection *c, uint32_t events) {
    if (c->state == CONNECTING) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error) {
            fail(c, REFUSED);
            return;
        }
        if (events & EPOLLOUT) c->state = WAITING;
    }
    if (c->state == IDLE && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) { /* the server closed it */
        char byte;
        if (read(c->fd, &byte, 1) <= 0) {
            close(c->fd);
            c->fd = -1;
            c->state = CLOSED;
        }
        return;
    }
    if (c->state == WAITING && c->written < c->request->size && events & EPOLLOUT) push(c);
    if (c->state == WAITING && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) pull(c);
}

static Request *read_bodies(const char *name, const char *path, char **headers, int count, int *found) {
    FILE *file = fopen(name, "r");
    char *line = NULL, more[8192] = "";
    size_t room = 0;
    ssize_t n;
    Request *requests = NULL;
    if (!file) exit(2);
    for (int i = 0; i < count; i++) {
        strncat(more, headers[i], sizeof more - strlen(more) - 3);
        strcat(more, "\r\n");
    }
    for (*found = 0; (n = getline(&line, &room, file)) > 0; (*found)++) {
        if (line[n - 1] == '\n') line[--n] = 0;
        requests = realloc(requests, (size_t)(*found + 1) * sizeof(Request));
        char *text = malloc((size_t)n + sizeof more + 1024);
        int size = sprintf(text, "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %zd\r\n%s\r\n",
                           path, port, n, more);
        memcpy(text + size, line, (size_t)n);
        requests[*found] = (Request){text, (size_t)size + (size_t)n};
    }
    fclose(file);
    return requests;
}

static void expire(double at) {
    for (int i = 0; i < connections; i++)
        if ((all[i].state == WAITING || all[i].state == CONNECTING) && at - all[i].began > timeout)
            fail(&all[i], TIMEOUT_);
}

int main(int argc, char **argv) {
    if (argc < 9) return 2;
    double rate = atof(argv[4]), seconds = atof(argv[5]), scanned = 0;
    int found;
    long sent = 0;
    port = atoi(argv[1]);
    connections = atoi(argv[6]);
    timeout = atof(argv[7]);
    answers = strcmp(argv[8], "-") ? fopen(argv[8], "a") : NULL;
    Request *requests = read_bodies(argv[3], argv[2], argv + 9, argc - 9, &found);
    poller = epoll_create1(0);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event tick = {.events = EPOLLIN, .data.ptr = NULL}, events[512];
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &tick);
    all = calloc((size_t)connections, sizeof(Connection));
    idle = calloc((size_t)connections, sizeof(int));
    for (int i = connections - 1; i >= 0; i--) {
        all[i].fd = -1;
        idle[idle_count++] = i;
    }
    double start = now(), at = start;
    for (;;) {
        at = now();
        int over = at - start >= seconds;
        for (;;) { /* what is due and has a connection */
            double due = rate > 0 ? start + (double)sent / rate : at;
            if (rate > 0 ? due > at || due - start >= seconds : over) break;
            if (rate > 0 && !idle_count && at - due > timeout) {
                failed[UNSENT]++, sent++;
                continue;
            }
            if (!idle_count) break;
            begin(&all[idle[--idle_count]], &requests[sent % found], due, at);
            sent++;
            if (rate == 0 && sent % connections == 0) break; /* all refused: look at the clock */
        }
        int more = rate > 0 && start + (double)sent / rate - start < seconds;
        if (over && !more && idle_count == connections) break;
        if (at - scanned > 0.1) {
            expire(at);
            scanned = at;
        }
        double wake = rate > 0 && idle_count && more ? start + (double)sent / rate : at + 0.1;
        struct itimerspec when = {.it_value = {(time_t)wake, (long)(1e9 * (wake - (time_t)wake))}};
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
        int n = epoll_wait(poller, events, 512, 200);
        for (int i = 0; i < n; i++)
            if (events[i].data.ptr) handle(events[i].data.ptr, events[i].events);
            else {
                uint64_t ticks;
                if (read(timer, &ticks, sizeof ticks) < 0) continue;
            }
    }
    double took = now() - start;
    if (answers) fclose(answers);
    printf("{\"sent\": %ld, \"seconds\": %.3f, \"status\": {", sent, took);
    const char *comma = "";
    for (int i = 0; i < 600; i++)
        if (status_count[i]) {
            printf("%s\"%d\": %ld", comma, i, status_count[i]);
            comma = ", ";
        }
    printf("}, \"failed\": {");
    for (int i = 0; i < KINDS; i++) printf("%s\"%s\": %ld", i ? ", " : "", KIND[i], failed[i]);
    printf("}, \"answers_per_second\": %.1f", answered.count / took);
    print_times("answered", &answered);
    print_times("other", &busy);
    print_times("from_sending", &sent_at);
    printf("}\n");
    return 0;
}
