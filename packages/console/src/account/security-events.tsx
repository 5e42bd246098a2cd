import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useClient, useSession } from "../session/session.tsx";
import { ActionButton } from "../ui/button.tsx";
import { PageButtons, usePages } from "../ui/pages.tsx";
import { Table } from "../ui/table.tsx";
import { When } from "../ui/when.tsx";

const ROWS = 25;

export function SecurityEvents() {
  const client = useClient();
  const queries = useQueryClient();
  const { signOut } = useSession();
  const pages = usePages([]);
  const { data: page } = useQuery({
    queryKey: ["audit-events", pages.cursor],
    queryFn: () => client.auth.auditEvents({ limit: ROWS, ...pages.position }).page(),
  });
  return (
    <section className="card" aria-label="Security events">
      <h2>Sessions and security events</h2>
      <p>
        {[false, true].map((revokeKeys) => (
          <ActionButton
            key={String(revokeKeys)}
            kind="danger"
            label={revokeKeys ? "End all sessions and revoke all keys" : "End all sessions"}
            run={async () => {
              await client.auth.endSessions({ revoke_keys: revokeKeys });
              queries.clear();
              signOut();
            }}
          />
        ))}
      </p>
      <Table
        caption="Events, newest first"
        rows={page?.items}
        rowKey={({ audit_event_id }) => audit_event_id}
        empty="No events yet."
        columns={[
          { title: "Time", cell: ({ created_at }) => <When at={created_at} /> },
          { title: "What", cell: ({ kind }) => kind.replaceAll("_", " ") },
          { title: "By", cell: ({ actor }) => actor },
          { title: "From", cell: ({ ip }) => ip ?? "–" },
          {
            title: "About",
            cell: ({ subject_id: id }) => (id === null ? "–" : <code>{id}</code>),
          },
        ]}
      />
      <PageButtons pages={pages} next={page?.next_cursor} />
    </section>
  );
}
