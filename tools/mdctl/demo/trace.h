/* A trace of work: per step of a server, how many tokens it computes and how long their context is. */
#ifndef MDCTL_TRACE_H
#define MDCTL_TRACE_H

#include <stdbool.h>
#include <stdint.h>

enum { TRACE_MAX_STEPS = 400 };

/* What a step may have at most. */
typedef struct trace_limits {
    int steps; /* up to TRACE_MAX_STEPS */
    int64_t tokens, context;
} trace_limits;

typedef struct trace {
    int n;
    int64_t tokens[TRACE_MAX_STEPS]; /* 1 or more */
    int64_t context[TRACE_MAX_STEPS]; /* 1 or more */
    char origin[256]; /* a sentence for people: where it is from, by which rule */
} trace;

/** A made-up day: a decoding batch that grows and shrinks, with prompts coming in chunks. Deterministic for a seed. */
void trace_generate(trace *out, uint64_t seed, const trace_limits *most);
/** Reads one batch size a line, or sizes and how often each occurs ("64 3"), in an order drawn from `seed`, or an Azure
 * LLM inference trace (TIMESTAMP,ContextTokens,GeneratedTokens). False after a message. */
bool trace_read(trace *out, const char *path, uint64_t seed, const trace_limits *most);
/** Tokens and context of at most n steps, evenly spread over the trace sorted by size, so that each stands for an equal
 * share of the steps. Returns how many there are. */
int trace_sample(int64_t (*out)[2], int n, const trace *t);

#endif
