/** The authenticator app: enrolment with a QR code, recovery codes, removal. */
import { useState } from "react";
import { useAct } from "../session/use-service.ts";
import { ActionButton } from "../ui/button.tsx";
import { Form, TextField } from "../ui/form.tsx";
import { QrCode } from "../ui/qr-code.tsx";
import { Part } from "../ui/facts.tsx";
import { formatTime } from "../units.ts";
import { StepUpFields, stepUpOrRecover, useWhoAmI } from "./step-up.tsx";

export function Totp() {
  const act = useAct("whoami");
  const me = useWhoAmI();
  const [enrolment, setEnrolment] = useState<{ secret: string; otpauth_uri: string } | null>(null);
  const [codes, setCodes] = useState<readonly string[]>([]);
  const totp = me?.totp;
  const removalAt = totp?.removal_at ?? null;
  const replacementAt = totp?.replacement_at ?? null;
  return (
    <Part title="Authenticator app">
      <p role="status">
        {totp?.enabled === true
          ? `On, with ${totp.recovery_codes_left} recovery codes left.`
          : "Off. Turn it on to approve withdrawals and to protect your login."}
      </p>
      {removalAt === null && replacementAt === null ? null : (
        <p>
          {removalAt === null ? null : `It is removed ${formatTime(removalAt)}. `}
          {replacementAt === null
            ? null
            : `Another device replaces it ${formatTime(replacementAt)}. Until then this one counts. `}
          <ActionButton
            label="Keep it"
            run={() => act((client) => client.auth.cancelTotpRemoval())}
          />
        </p>
      )}
      {codes.length === 0 ? null : (
        <div className="card receipt" role="status">
          <p>Keep these recovery codes. They are shown once.</p>
          <pre>{codes.join("\n")}</pre>
          <button type="button" onClick={() => setCodes([])}>
            I have kept them
          </button>
        </div>
      )}
      {enrolment === null ? (
        <Form
          label="Authenticator app"
          action={totp?.enabled === true ? "Exchange the device" : "Turn it on"}
          submit={async (values) =>
            setEnrolment(await act((client) => client.auth.startTotp(stepUpOrRecover(values))))
          }
        >
          {totp?.enabled === true ? (
            <p>
              The new device counts after the security delay, and sessions only read until then.
              With a recovery code instead of the code it counts at once.
            </p>
          ) : null}
          <StepUpFields recovery />
        </Form>
      ) : (
        <Form
          label="Confirm the app"
          action="Confirm"
          submit={async (values) => {
            const totp_code = values.text("code");
            const { recovery_codes } = await act((client) =>
              client.auth.confirmTotp({ totp_code }),
            );
            setEnrolment(null);
            setCodes(recovery_codes);
          }}
        >
          <QrCode text={enrolment.otpauth_uri} />
          <p>
            Scan it, or enter <code>{enrolment.secret}</code>.
          </p>
          <TextField label="Code that the app shows" name="code" inputMode="numeric" required />
        </Form>
      )}
      {totp?.enabled === true && totp.removal_at === null ? (
        <details>
          <summary>Remove it</summary>
          <Form
            danger
            label="Remove the app"
            action="Remove"
            submit={(values) => act((client) => client.auth.removeTotp(stepUpOrRecover(values)))}
          >
            <StepUpFields recovery />
          </Form>
        </details>
      ) : null}
    </Part>
  );
}
