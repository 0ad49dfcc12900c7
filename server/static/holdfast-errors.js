/**
 * The errors of a page's client.
 *
 * A `HoldfastError` has the fields of the server's problem documents (RFC 9457), or one of the page's own codes:
 * `unreachable` (no answer to a read), `outcome_unknown` (no answer to a command, which may have been recorded; the same key
 * repeats it), `too_large`, `not_holdfast` (an answer in another form).
 */
export class HoldfastError extends Error {
  constructor({ code, status = 0, detail, fields = {}, cause }) {
    super(detail, { cause });
    this.name = new.target.name;
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.fields = fields;
  }
}

/** The call was settled before, is unknown, or its deadline has passed. `settledAt` is in milliseconds UTC. */
export class StaleCall extends HoldfastError {
  constructor(problem) {
    super(problem);
    const { reason, settled_by: settledBy, settled_at: settledAt } = this.fields;
    this.reason = String(reason ?? "unknown");
    this.settledBy = settledBy ?? null;
    this.settledAt = settledAt ?? null;
  }
}

/** The error of a problem document, or of a response without one; `status` is the response's. */
export function errorOf(problem, status) {
  if (problem === null || typeof problem !== "object" || typeof problem.code !== "string") {
    return new HoldfastError({
      code: "not_holdfast",
      status,
      detail: `the server answered ${status}, and not as Holdfast does`,
    });
  }
  const { type, title, code, detail, status: said, ...fields } = problem;
  const Kind = code === "stale_call" ? StaleCall : HoldfastError;
  return new Kind({ code, status: Number(said) || status, detail: String(detail ?? title ?? code), fields });
}
