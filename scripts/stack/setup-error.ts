/**
 * The machine is not ready. The message says what to do, so scripts print it without a stack trace.
 */
export class SetupError extends Error {}
