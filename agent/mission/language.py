"""Words of the language itself, English and German: they steer how a directive is read and are never about a subject."""

from __future__ import annotations

from typing import Final


def words_of(text: str) -> frozenset[str]:
    """The words of a list written as text."""
    return frozenset(text.split())


NEGATIONS: Final = words_of(
    "don't dont not never no without skip avoid nicht kein keine keinen ohne non cannot can't cant doesn't won't isn't nor w/o"
    " leave refrain statt anstatt"
)
NEGATION_PHRASES: Final = (
    "instead of",
    "rather than",
    "other than",
    "no need to",
    "leave out",
    "anstelle von",
    "as opposed to",
)
NEGATION_ENDS: Final = words_of("but and then just sondern aber und dann however also")
AFFIRMED: Final = frozenset({"only", "just", "nur", "sure", "merely", "bloß"})  # "not only" is no negation

HEDGES: Final = (
    "if needed", "if necessary", "if required", "if any", "if that's still needed", "if thats still needed",
    "if that is still needed", "if still needed", "if still necessary", "if that's needed", "if it's needed",
    "if it is needed", "if that's necessary", "if applicable", "if at all", "if you have to", "if we have to",
    "where needed", "where necessary", "as needed", "maybe", "perhaps", "possibly", "probably", "might need",
    "may need", "in case", "unless", "falls nötig", "falls noetig", "wenn nötig", "wenn noetig", "falls notwendig",
    "falls erforderlich", "wenn erforderlich", "sofern nötig", "bei bedarf", "eventuell", "evtl", "vielleicht",
    "falls das noch nötig ist", "ggf", "gegebenenfalls", "whether still needed", "if that's even needed",
)  # fmt: skip

MUST: Final = (
    "must", "must be", "only", "exclusively", "has to", "has to be", "have to", "needs to be", "need to be", "required",
    "requires", "strictly", "mandatory", "a must", "nothing but", "non negotiable", "muss", "nur", "zwingend",
    "ausschließlich", "ausschliesslich", "pflicht", "unbedingt",
)  # fmt: skip
PREFER: Final = (
    "focusing on", "focusing", "focus on", "focus", "focussing on", "focused on", "prefer", "preferred", "prefered", "preferably",
    "ideally", "would like", "want", "wanted", "should be", "aim for", "best in", "bevorzugt", "am liebsten", "fokus auf",
    "fokus", "idealerweise", "möglichst", "lieber", "hätte gern", "soll", "sollte", "wunsch",
)  # fmt: skip

NUMBERS: Final[dict[str, int]] = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "sixteen": 16, "both": 2,
    "single": 1, "ein": 1, "eine": 1, "einer": 1, "einem": 1, "einen": 1, "zwei": 2, "drei": 3, "vier": 4, "sechs": 6,
    "acht": 8,
}  # fmt: skip
EACH: Final = words_of("each per apiece every respectively jeweils je pro jede jeder jedes beide both")
SAME: Final = words_of(
    "one 1 same single own local separate within einem einer einen ein eine gleichen derselben demselben selben eigenen"
    " eigener jeweils each per je pinned bound isolated"
)
ACROSS: Final = words_of("across cross crossing span spanning spans über beide both")

USING: Final = words_of(
    "on with using via in under onto through use mit auf unter über nutze verwende for für"
)
OBJECT_WORDS: Final = words_of(
    "current running old existing previous laufende laufenden alte alten aktuelle aktuellen"
)
ABOUT_NOW: Final = words_of(
    "installed currently current running existing old has have installiert läuft aktuell derzeit was from"
)
TOWARDS: Final = words_of("to into in under onto target directory dir folder path nach unter ins at")

HOST_BEFORE: Final = words_of("on auf ssh at")
HOST_NOUNS: Final = words_of("host server machine box node rechner maschine hostname target")
HOST_NAMING: Final = words_of("is named called heißt namens")
HERE: Final = (
    "localhost", "locally", "lokal", "on this machine", "on this host", "on this box", "on this server", "auf dieser maschine",
    "auf diesem rechner", "auf diesem server", "auf diesem host",
)  # fmt: skip

READ_ONLY: Final = (
    "dry run", "read only", "check only", "only check", "just check", "don't change anything", "do not change anything",
    "dont change anything", "change nothing", "touch nothing", "don't touch anything", "do not touch anything", "nur prüfen",
    "nichts ändern", "nichts verändern", "just look", "only look",
)  # fmt: skip

STOP_WORDS: Final = words_of("""
    a an the this that these those it its it's that's thats there here i i'd i'll i'm we we'd we'll we're you your he she they them
    our us me my is are was were be been being am do does did done doing has have had having can could should would will shall may
    might must need needs needed and or but nor so if then than else when while where which who whom whose what how why to of in on
    at by for from with within without into onto over under up down off out about as per via between both each all any some such
    no not only just also too very still yet already again now later first second third next last finally after before until once
    please thanks thank hi hello hey team ok okay yes e.g i.e etc vs e g way ways let's lets let make makes made get gets got give take use uses using
    used want wants wanted try like would want'd way way one ones more most less least much many few other another same new old
    current currently existing running own because since though although however therefore thus hence well really quite rather
    simply even ever never don't dont doesn't didn't won't can't cannot couldn't shouldn't isn't aren't keep sure whether either
    neither instead able soon today tomorrow tonight asap everything anything something nothing thing things bit lot kind work works working there's
    goal task job idea plan think know see look looks looking go goes going come comes back put set

    ein eine einen einem einer eines der die das den dem des und oder aber nicht kein keine keinen mit auf in im an am aus bei nach
    von vom vor zu zum zur über unter für gegen ohne um durch ist sind war waren sein wird werden wurde wurden soll sollen sollte
    sollten muss müssen kann können könnte wenn falls ob dass weil da dann danach noch schon auch nur sehr mal bitte jetzt hier dort
    wir ich ihr sie er es man uns mir mich euch unser unsere unseren mein meine dein deine dieser diese dieses diesen diesem jeder
    jede jedes jeweils je pro alle alles etwas nichts als wie was wer wo so sonst doch zuerst zunächst davor anschließend neu neue
    neuen neues neuer alt alte alten aktuelle aktuellen laufende laufenden machen mache mach bringen bringe bring lassen lass wollen
    will würde würden haben hat hatte gern gerne möchte möchten beide beiden zwei sowie bzw z.b also danke hallo moin
    """)
