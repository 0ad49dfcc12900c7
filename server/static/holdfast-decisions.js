/** What a decision is made of, as the server takes it. */

/** The call may run, with its own arguments or with these. */
export const approve = (edited) => ({ decision: "approve", ...(edited !== undefined && { arguments: edited }) });

/** The call must not run, or the person will not answer. The model reads the reason. */
export const deny = (reason = "") => ({ decision: "deny", reason });

/** The call's result; `false`, `0`, `""` and `null` are answers like any other. */
export const answer = (value) => ({ decision: "answer", value: value === undefined ? null : value });

/** The client could not produce a result. The model reads the error. */
export const fail = (error) => ({ decision: "fail", error: String(error) });

/** A lost run is to run again. */
export const redispatch = () => ({ decision: "redispatch" });
