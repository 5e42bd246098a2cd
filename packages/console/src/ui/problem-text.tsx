import { Problem } from "@rfq-custody/client";

/** Says what went wrong, in the service's own words. */
export function ProblemText({ error }: { error: unknown }) {
  return (
    <p className="problem" role="alert">
      {explain(error)}
    </p>
  );
}

function explain(error: unknown): string {
  if (error instanceof Problem) {
    const fields = error.errors.map(({ path, message }) => `${path}: ${message}`).join("; ");
    const detail = error.body.detail ?? error.body.title ?? error.code;
    return fields === "" ? detail : `${detail} (${fields})`;
  }
  return error instanceof Error ? error.message : String(error);
}
