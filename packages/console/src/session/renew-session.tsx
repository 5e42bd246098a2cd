import { useEffect, useState } from "react";
import { stepUpOrRecover } from "../account/step-up.tsx";
import { useConnection } from "../live/connection.ts";
import { PasswordField } from "../ui/form.tsx";
import { LoginForm } from "./login-form.tsx";
import { useSession } from "./session.tsx";

/** The session is renewed this long before it ends. */
const WARN_MS = 120_000;

/** Asks for the password again before the session ends, and when it has. What is shown stays. */
export default function RenewSession() {
  const { session, renew, signOut, email } = useSession();
  const [due, setDue] = useState(false);
  const ended = useConnection() === "ended";
  useEffect(() => {
    setDue(false);
    // From the lifetime and not from `expires_at`, because this clock may be wrong. A session of
    // another tab or of before a reload may be older, which the end of the stream shows.
    const life = session.expires_in * 1_000;
    const timer = setTimeout(() => setDue(true), Math.max(life - WARN_MS, life / 2));
    return () => clearTimeout(timer);
  }, [session]);
  if (!due && !ended) return null;
  return (
    <section className="card notice" aria-label="Renew the session" role="alert">
      <p>
        Your session {ended ? "has ended" : "ends soon"}. Enter the password of {email} to go on, or{" "}
        <button type="button" className="link" onClick={signOut}>
          sign out
        </button>
        .
      </p>
      <LoginForm
        inline
        label="Renew the session"
        action="Go on"
        submit={(values) => renew(stepUpOrRecover(values))}
      >
        <PasswordField />
      </LoginForm>
    </section>
  );
}
