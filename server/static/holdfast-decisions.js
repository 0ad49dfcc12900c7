/** Decisions in the form in which the server takes them. The log keeps a `reason`. */

const why = ({ reason } = {}) => (reason ? { reason } : {});

/**
 * The call may run, with its own arguments or with these. With a `scope` (`{kind, pattern, level, ends_s, everything}`), later calls
 * of the conversation that it covers run without asking; a scope does not go with edited arguments.
 */
export const approve = (edited, options) => ({
  decision: "approve",
  ...(edited !== undefined && { arguments: edited }),
  ...why(options),
  ...(options?.scope && { scope: options.scope }),
});

/** The call must not run, or the person will not answer. The model reads the reason. */
export const deny = (reason = "") => ({ decision: "deny", reason });

/** The call's result; `false`, `0`, `""` and `null` are answers like any other. */
export const answer = (value, options) => ({ decision: "answer", value: value === undefined ? null : value, ...why(options) });

/** The client could not produce a result. The model reads the error. */
export const fail = (error, options) => ({ decision: "fail", error: String(error), ...why(options) });

/** A lost run is to run again. */
export const redispatch = (options) => ({ decision: "redispatch", ...why(options) });

/** The call is dropped, and its turn goes on without it. The model reads the reason. */
export const cancel = (reason = "") => ({ decision: "cancel", reason });

/** A verdict on a review that a tool asked for: "allow", "block", or "review" to send it back. The model reads the notes. */
export const review = (verdict, notes = "") => ({ decision: "review", verdict, notes });
